// Work for ranks: what nodes say of each other must fit together, whatever the schedule.
#include "weft/reshard/build/nodes.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "weft/plan/program.h"
#include "weft/reshard/build/shards.h"
#include "weft/reshard/cases_test.h"

namespace weft::resharding {
namespace {

constexpr Strategy kAll[] = {Strategy::send_recv, Strategy::local_allgather, Strategy::global_allgather,
                             Strategy::broadcast};

std::int64_t lanes_of(const Node& node) {
  const Grid grid = grid_of(node.box, node.tile);
  return grid.rows * grid.cols;
}

// Calls `check(instance, nodes)` for random reshards and every strategy.
template <typename Check>
void for_random_nodes(const Check& check) {
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (const Strategy strategy : kAll) {
      SCOPED_TRACE(std::to_string(seed) + " " + std::string(to_string(strategy)));
      const Instance instance = random_tangle(seed, seed % 2 == 0);
      const std::vector<Task> all = tasks(instance.reshard);
      const Schedule s = schedule(all, instance.network, {.strategy = strategy});
      check(instance, nodes_of(instance.reshard, all, s, instance.network, {.message_s = 20e-6}));
    }
}

TEST(ReshardNodes, ArrivalsFillEveryDestinationShardOnce) {
  for_random_nodes([](const Instance& instance, const Nodes& nodes) {
    std::map<std::pair<int, int>, std::vector<Box>> got;  // by rank and transfer
    for (const Arrival& arrival : nodes.arrivals) {
      auto& boxes = got[{arrival.rank, arrival.transfer}];
      for (const Box& box : boxes) EXPECT_FALSE(overlaps(box, arrival.box)) << to_string(box);
      boxes.push_back(arrival.box);
      const Transfer& transfer = instance.reshard.transfers[at(arrival.transfer)];
      const Part& part = transfer.parts[at(arrival.part)];
      EXPECT_TRUE(contains(shard_of(instance.reshard, part.tensor, part.at, arrival.root), arrival.box));
    }
    for (int t = 0; t < int_size(instance.reshard.transfers); ++t)
      for (int rank = 0; rank < instance.reshard.num_ranks; ++rank) {
        const Box shard = shard_of(instance.reshard, instance.reshard.transfers[at(t)].destination, {}, rank);
        std::int64_t volume = 0;
        for (const Box& box : got[{rank, t}]) {
          EXPECT_TRUE(contains(shard, box));
          volume += box.volume();
        }
        EXPECT_EQ(volume, shard.empty() ? 0 : shard.volume()) << "rank " << rank;
      }
  });
}

// A relay waits for counters of its own: one per tile, no two chunks share one, and its parents raise exactly those.
TEST(ReshardNodes, FullCountersBelongToOneChunk) {
  for_random_nodes([](const Instance&, const Nodes& nodes) {
    std::map<std::pair<int, std::int64_t>, int> raised;  // by rank and counter: parents
    std::set<std::pair<int, std::int64_t>> awaited;
    for (const Node& node : nodes.nodes) {
      for (const Kid& kid : node.kids)
        for (std::int64_t lane = 0; kid.arrival >= 0 && lane < lanes_of(node); ++lane)
          ++raised[{kid.rank, kid.arrival + lane}];
      for (std::int64_t lane = 0; node.kind == NodeKind::relay && lane < lanes_of(node); ++lane)
        awaited.insert({node.rank, node.full + lane});
    }
    for (const auto& [counter, parents] : raised) {
      EXPECT_EQ(parents, 1);
      EXPECT_TRUE(awaited.contains(counter));
      EXPECT_LT(counter.second, nodes.num_full[at(counter.first)]);
    }
    EXPECT_EQ(raised.size(), awaited.size());
  });
}

TEST(ReshardNodes, LeavesCountWhatTheirParentsSend) {
  for_random_nodes([](const Instance&, const Nodes& nodes) {
    std::vector<std::vector<std::int64_t>> sent;
    for (const auto& done : nodes.done) sent.emplace_back(done.size());
    for (const Node& node : nodes.nodes)
      for (const Kid& kid : node.kids)
        if (kid.arrival < 0) sent[at(kid.rank)].at(at(-1 - kid.arrival)) += lanes_of(node);
    EXPECT_EQ(sent, nodes.done);
  });
}

// A kid says to each of its parents, on a counter that nobody else raises, that its shard may be written again.
TEST(ReshardNodes, EveryParentIsToldByEveryKid) {
  for_random_nodes([](const Instance&, const Nodes& nodes) {
    std::map<std::pair<int, std::int64_t>, int> told;  // by parent and counter: who
    for (int kid = 0; kid < int_size(nodes.opens); ++kid)
      for (const auto& [parent, counter] : nodes.opens[at(kid)]) {
        EXPECT_TRUE(told.emplace(std::pair(parent, counter), kid).second);
        EXPECT_LT(counter, nodes.num_open[at(parent)]);
      }
    std::int64_t counters = 0;
    for (const std::int64_t count : nodes.num_open) counters += count;
    EXPECT_EQ(std::ssize(told), counters);
    for (const Node& node : nodes.nodes)
      for (const Kid& kid : node.kids) EXPECT_EQ(told.at({node.rank, kid.open}), kid.rank);
  });
}

TEST(ReshardNodes, TheyAreSortedByRankAndOrder) {
  for_random_nodes([](const Instance&, const Nodes& nodes) {
    for (std::size_t i = 1; i < nodes.nodes.size(); ++i) {
      const Node &before = nodes.nodes[i - 1], &node = nodes.nodes[i];
      EXPECT_LE(std::pair(before.rank, before.order), std::pair(node.rank, node.order));
    }
  });
}

// A producer's tiles are made once: what several ranks want is one node with a kid for each.
TEST(ReshardNodes, WhatAProducerMakesIsMadeOnce) {
  const Mesh source = hosts_by_devices(2, 1), destination = hosts_by_devices(3, 1);
  const Reshard reshard = one_tensor({8, 6}, Dtype::f32, source, "S0,R", destination, "R,R");
  const Network network = one_nic_a_host(hosts_side_by_side(source, destination), {1e9, 0}, {1e10, 0});
  const std::vector<Task> all = tasks(reshard);
  const Schedule s = schedule(all, network, {.strategy = Strategy::send_recv});
  const Nodes nodes = nodes_of(reshard, all, s, network, {.fixed = {2, 3}});
  std::map<int, std::int64_t> made;  // elements, by rank
  for (const Node& node : nodes.nodes) {
    ASSERT_EQ(node.kind, NodeKind::root);
    EXPECT_EQ(node.tile, (std::array<std::int64_t, 2>{2, 3}));
    EXPECT_EQ(node.kids.size(), 3u);
    made[node.rank] += node.box.volume();
  }
  EXPECT_EQ(made, (std::map<int, std::int64_t>{{0, 24}, {1, 24}}));
}

}  // namespace
}  // namespace weft::resharding
