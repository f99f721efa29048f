// Networks of one kind in several sizes: the same links, routes that arrive, and refusals where there is no rule.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/cluster/topology.h"

namespace weft {
namespace {

const Link kEdge{2e9, 3e-6}, kCore{8e9, 1e-6};

std::vector<Topology> resizable() {
  return {ring_topology(8, kEdge),
          torus_topology({4, 2}, {kEdge, kCore}),
          switch_topology(8, kEdge),
          full_topology(8, kEdge),
          clos_topology({.ranks = 8, .ranks_per_leaf = 4, .num_spines = 3, .link = kEdge, .uplink = kCore}),
          rails_topology(2, 4, kCore, kEdge)};
}

std::set<std::pair<double, double>> kinds_of_links(const Topology& topology) {
  std::set<std::pair<double, double>> out;
  for (const DirectedLink& wire : topology.wires) out.insert({wire.bytes_per_s, wire.latency_s});
  return out;
}

void expect_routes(const Topology& t) {
  for (int from = 0; from < t.num_ranks; ++from)
    for (int to = 0; to < t.num_ranks; ++to) {
      int node = from;
      for (const int wire : t.route(from, to)) {
        ASSERT_EQ(t.wires[at(wire)].from, node) << to_string(t.kind);
        node = t.wires[at(wire)].to;
      }
      ASSERT_EQ(node, to) << to_string(t.kind);
    }
}

TEST(TopologyResize, KeepsKindNameAndLinks) {
  for (Topology before : resizable()) {
    before.name = "mine", before.packet_bytes = 777;
    for (const int ranks : {4, 16, 32}) {
      SCOPED_TRACE(std::string(to_string(before.kind)) + " of " + std::to_string(ranks));
      const Topology after = resized(before, ranks);
      EXPECT_EQ(after.num_ranks, ranks);
      EXPECT_EQ(after.kind, before.kind);
      EXPECT_EQ(after.name, "mine");
      EXPECT_EQ(after.packet_bytes, 777);
      // One leaf or one host needs no link between several; no other link may come or go.
      for (const auto& link : kinds_of_links(after)) EXPECT_TRUE(kinds_of_links(before).contains(link));
      if (ranks > 8) {
        EXPECT_EQ(kinds_of_links(after), kinds_of_links(before));
      }
      expect_routes(after);
    }
  }
}

// A torus comes back with its sides in another order: the larger one is halved first.
TEST(TopologyResize, ThereAndBackIsTheSameNetwork) {
  for (const Topology& before : resizable()) {
    Topology back = resized(resized(before, 32), 8);
    EXPECT_EQ(back.num_nodes(), before.num_nodes()) << to_string(before.kind);
    EXPECT_TRUE(resized(before, 8).wires == before.wires) << to_string(before.kind);
    if (before.kind != TopologyKind::torus) {
      EXPECT_TRUE(back.wires == before.wires) << to_string(before.kind);
      continue;
    }
    std::sort(back.dims.rbegin(), back.dims.rend());
    EXPECT_EQ(back.dims, before.dims);
  }
}

TEST(TopologyResize, ATorusGrowsWhereItIsSmallest) {
  const Topology torus = torus_topology({4, 2}, {kEdge, kCore});
  EXPECT_EQ(resized(torus, 16).dims, (std::vector<int>{4, 4}));
  EXPECT_EQ(resized(torus, 32).dims, (std::vector<int>{8, 4}));
  EXPECT_EQ(resized(torus, 4).dims, (std::vector<int>{2, 2}));
}

TEST(TopologyResize, ExceptionsAreLeftBehind) {
  Topology ring = ring_topology(8, kEdge);
  slow_wire(&ring, "rank 0", "rank 1", 4, "test");
  slow_rank(&ring, 3, 2, "test");
  ASSERT_FALSE(ring.is_even);
  const Topology larger = resized(ring, 16);
  EXPECT_TRUE(larger.is_even);
  EXPECT_TRUE(larger.slower.empty());
  EXPECT_FALSE(resized(ring, 8).is_even) << "of the same size it is the same";
}

TEST(TopologyResize, SizesThatCannotBeAreRefused) {
  const auto said = [](const Topology& topology, int ranks) { return refusal([&] { resized(topology, ranks); }); };
  EXPECT_NE(said(torus_topology({4, 2}, {kEdge, kCore}), 24).find("never has 24"), std::string::npos);
  EXPECT_NE(said(rails_topology(2, 4, kCore, kEdge), 10).find("10 ranks in hosts of 4"), std::string::npos);
  const Topology graph = graph_topology({"a", "b"}, {}, {{"a", "b", kEdge}, {"b", "a", kEdge}});
  EXPECT_NE(said(graph, 4).find("lists its nodes one by one"), std::string::npos);
}

}  // namespace
}  // namespace weft
