#include "weft/cluster/topology.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

const Link kThin{1e9, 1e-6}, kWide{4e9, 2e-7};

std::vector<Topology> some_of_each() {
  return {ring_topology(7, kThin),
          torus_topology({3, 4, 2}, {kThin, kWide, kThin}),
          switch_topology(5, kThin),
          full_topology(6, kThin),
          clos_topology({.ranks = 12, .ranks_per_leaf = 4, .num_spines = 2, .link = kThin, .uplink = kWide}),
          clos_topology({.ranks = 12,
                         .ranks_per_leaf = 3,
                         .num_spines = 5,
                         .link = kThin,
                         .uplink = kWide,
                         .spines = Spines::hashed,
                         .seed = 9}),
          rails_topology(3, 4, kWide, kThin),
          graph_topology({"a", "b", "c"}, {"s"},
                         {{"a", "s", kThin},
                          {"s", "a", kThin},
                          {"b", "s", kThin},
                          {"s", "b", kThin},
                          {"c", "b", kThin},
                          {"b", "c", kThin}})};
}

TEST(Topology, RoutesAreUnbrokenAndEndAtTheReceiver) {
  for (const Topology& t : some_of_each())
    for (int from = 0; from < t.num_ranks; ++from)
      for (int to = 0; to < t.num_ranks; ++to) {
        const std::vector<int> route = t.route(from, to);
        EXPECT_EQ(route.empty(), from == to);
        int node = from;
        for (const int wire : route) {
          EXPECT_EQ(t.wires[at(wire)].from, node) << t.name;
          node = t.wires[at(wire)].to;
        }
        EXPECT_EQ(node, to) << t.name << " " << from;
      }
}

TEST(Topology, ATorusGoesTheShorterWayTheLastDimensionFirst) {
  const Topology t = torus_topology({5, 4}, {kThin, kWide});
  for (int from = 0; from < 20; ++from)
    for (int to = 0; to < 20; ++to) {
      const auto way = [](int a, int b, int size) { return std::min((b - a + size) % size, (a - b + size) % size); };
      EXPECT_EQ(int_size(t.route(from, to)), way(from / 4, to / 4, 5) + way(from % 4, to % 4, 4));
    }
  const std::vector<int> route = t.route(0, 6);  // (0, 0) to (1, 2): as short either way, so upwards
  ASSERT_EQ(route.size(), 3u);
  EXPECT_EQ(t.wire_name(route[0]), "rank 0 -> rank 1");
  EXPECT_EQ(t.wires[at(route[1])].bytes_per_s, 4e9);
  EXPECT_EQ(t.wire_name(route[2]), "rank 2 -> rank 6");
}

TEST(Topology, AShiftedExchangeMeetsOnNoBalancedSpine) {
  const Topology t = clos_topology({.ranks = 32, .ranks_per_leaf = 8, .num_spines = 8, .link = kThin, .uplink = kThin});
  for (int shift = 1; shift < 32; ++shift) {
    std::vector<int> uses(t.wires.size(), 0);
    for (int from = 0; from < 32; ++from)
      for (const int wire : t.route(from, (from + shift) % 32)) EXPECT_EQ(++uses[at(wire)], 1);
  }
}

TEST(Topology, RailsCrossTheirOwnHostFirst) {
  const Topology t = rails_topology(2, 4, kWide, kThin);
  const auto names = [&](int from, int to) {
    std::vector<std::string> out;
    for (const int wire : t.route(from, to)) out.push_back(t.wire_name(wire));
    return out;
  };
  EXPECT_EQ(names(1, 3), (std::vector<std::string>{"rank 1 -> host 0", "host 0 -> rank 3"}));
  EXPECT_EQ(names(1, 5), (std::vector<std::string>{"rank 1 -> rail 1", "rail 1 -> rank 5"}));
  EXPECT_EQ(names(1, 6),
            (std::vector<std::string>{"rank 1 -> host 0", "host 0 -> rank 2", "rank 2 -> rail 2", "rail 2 -> rank 6"}));
}

TEST(Topology, NicsAreSharedAndRacksHaveUplinks) {
  Network network = one_nic_a_host(3, 2, kThin, kWide);
  network.rack_of = {0, 1, 1};
  network.uplink = {0, 5e8};
  const Topology t = nics_topology(network);
  const auto rates = [&](int from, int to) {
    std::vector<double> out;
    for (const int wire : t.route(from, to)) out.push_back(t.wires[at(wire)].bytes_per_s);
    return out;
  };
  EXPECT_EQ(rates(0, 1), (std::vector<double>{4e9, 4e9}));
  EXPECT_EQ(rates(0, 2), (std::vector<double>{1e9, 5e8, 1e9}));  // rack 0 is never in the way
  EXPECT_EQ(rates(2, 5), (std::vector<double>{1e9, 1e9}));
  EXPECT_EQ(t.route(0, 2)[0], t.route(1, 4)[0]);
  double latency = 0;
  for (const int wire : t.route(0, 2)) latency += t.wires[at(wire)].latency_s;
  EXPECT_EQ(latency, 1e-6);
}

TEST(Topology, ShippedFilesLoad) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "clusters";
  int num_files = 0;
  for (const char* folder : {"topologies", "networks"})
    for (const auto& entry : std::filesystem::directory_iterator(root / folder)) {
      ++num_files;
      EXPECT_EQ(load_topology(entry.path().string()).name, entry.path().stem().string());
    }
  EXPECT_GE(num_files, 11);
  EXPECT_EQ(load_topology("torus-16x8").num_ranks, 128);
  EXPECT_EQ(load_topology("four-hosts-10gbit").kind, TopologyKind::nics);
  EXPECT_NE(refusal([] { load_topology("torus-16x9"); }).find("unknown network \"torus-16x9\"; use one of clos-1024"),
            std::string::npos);
}

std::string file_with(const std::string& pointer, const nlohmann::json& value) {
  nlohmann::json object{{"name", "n"},          {"kind", "clos"},
                        {"ranks", 8},           {"ranks_per_leaf", 4},
                        {"num_spines", 2},      {"link", {{"bytes_per_s", 1e9}, {"latency_s", 1e-6}}},
                        {"oversubscription", 2}};
  object[nlohmann::json::json_pointer(pointer)] = value;
  return object.dump();
}

TEST(Topology, FilesSayOversubscriptionPacketsAndExceptions) {
  const Topology t = parse_topology(file_with("/packet_bytes", "whole"), "n.json");
  EXPECT_EQ(t.packet_bytes, kWholeMessage);
  EXPECT_EQ(t.wires[16].bytes_per_s, 1e9 * 4 / (2 * 2));
  EXPECT_TRUE(t.is_even);
  const Topology slow =
      parse_topology(file_with("/slow_links", {{{"from", "leaf 0"}, {"to", "spine 1"}, {"factor", 4}}}), "n.json");
  EXPECT_EQ(slow.wires[17].bytes_per_s, 2.5e8);
  EXPECT_FALSE(slow.is_even);
  const Topology late = parse_topology(file_with("/slow_ranks", {{{"rank", 3}, {"factor", 1.5}}}), "n.json");
  EXPECT_EQ(late.slower[3], 1.5);
  EXPECT_EQ(late.slower[2], 1);
}

TEST(Topology, HostileFilesAreRefusedByFieldName) {
  const auto refusal_of = [](const std::string& text) { return refusal([&] { parse_topology(text, "n.json"); }); };
  const std::vector<std::tuple<const char*, nlohmann::json, const char*>> cases = {
      {"/kind", "hypercube", "n.json: unknown kind \"hypercube\"; use ring, torus"},
      {"/ranks", 9, "n.json: 9 ranks on leaves of 4; give leaves that they fill"},
      {"/ranks", 0, "\"ranks\" is 0"},
      {"/ranks", "many", "\"ranks\""},
      {"/link/bytes_per_s", 0, "\"bytes_per_s\" is 0"},
      {"/link/bytes_per_s", -5e9, "\"bytes_per_s\" is -5"},
      {"/link/latency_s", -1, "\"latency_s\" is -1"},
      {"/oversubscription", 0, "\"oversubscription\" is 0"},
      {"/uplink", nlohmann::json{{"bytes_per_s", 1e9}, {"latency_s", 0}}, "give either \"uplink\""},
      {"/spines", "random", "use one of balanced, hashed"},
      {"/packet_bytes", -1, "\"packet_bytes\" is -1"},
      {"/packet_bytes", "half", "\"packet_bytes\" is \"half\"; give a number of bytes"},
      {"/slow_ranks", nlohmann::json{{{"rank", 8}, {"factor", 2}}}, "rank 8 is slower, but there are 8"},
      {"/slow_links", nlohmann::json{{{"from", "rank 0"}, {"to", "rank 1"}, {"factor", 2}}},
       "no link leads from \"rank 0\" to \"rank 1\""},
      {"/leafs", 3, "unknown field \"leafs\""}};
  for (const auto& [pointer, value, text] : cases)
    EXPECT_NE(refusal_of(file_with(pointer, value)).find(text), std::string::npos)
        << pointer << ": " << refusal_of(file_with(pointer, value));
  const std::string graph = R"({"name": "g", "kind": "graph", "ranks": ["a", "b"], "switches": ["s"], "links": [)";
  const std::string link = R"("bytes_per_s": 1e9, "latency_s": 0})";
  EXPECT_NE(refusal_of(graph + R"({"from": "a", "to": "s", )" + link + "]}").find("no way leads from b to a"),
            std::string::npos);
  EXPECT_NE(refusal_of(graph + R"({"from": "a", "to": "t", )" + link + "]}").find("a link ends at \"t\""),
            std::string::npos);
  EXPECT_NE(refusal_of(graph + R"({"from": "a", "to": "a", )" + link + "]}").find("to itself"), std::string::npos);
  for (const char* text :
       {"", "[]", "3", "{}", R"({"kind": 3})", R"({"kind": "ring"})", R"({"kind": "torus", "dims": []})"})
    EXPECT_EQ(refusal_of(text).find("n.json"), 0u) << text;
}

}  // namespace
}  // namespace weft
