#include "weft/sim/net/run.h"

#include <random>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/plan/plans_test.h"
#include "weft/plan/price/traffic.h"
#include "weft/plan/small_plans_test.h"
#include "weft/sim/net/reference_test.h"

namespace weft::netsim {
namespace {

const Link kLink{1e9, 700e-9}, kFast{3e9, 200e-9};

Topology islands(int ranks) {
  std::vector<std::string> names, switches{"a", "b"};
  std::vector<NamedWire> wires;
  for (int r = 0; r < ranks; ++r) {
    names.push_back(fmt::format("n{}", r));
    const std::string at_switch = r % 3 == 0 ? "b" : "a";
    const Link link{1e9 * (1 + r % 4), 300e-9};
    wires.push_back({names.back(), at_switch, link});
    wires.push_back({at_switch, names.back(), link});
  }
  wires.push_back({"a", "b", kLink});
  wires.push_back({"b", "a", kLink});
  return graph_topology(names, switches, wires);
}

std::vector<Topology> networks(int ranks) {
  std::vector<Topology> out{ring_topology(ranks, kLink), switch_topology(ranks, kLink), full_topology(ranks, kLink),
                            islands(ranks), nics_topology(one_nic_a_host(ranks, 1, kLink, kFast))};
  if (ranks % 2 == 0) {
    out.push_back(torus_topology({ranks / 2, 2}, {kLink, kFast}));
    out.push_back(rails_topology(ranks / 2, 2, kFast, kLink));
    out.push_back(
        clos_topology({.ranks = ranks, .ranks_per_leaf = 2, .num_spines = 2, .link = kLink, .uplink = kFast}));
    out.push_back(clos_topology({.ranks = ranks,
                                 .ranks_per_leaf = ranks / 2,
                                 .num_spines = 3,
                                 .link = kFast,
                                 .uplink = kLink,
                                 .spines = Spines::hashed}));
    out.push_back(nics_topology(one_nic_a_host(ranks / 2, 2, kLink, kFast)));
  }
  const std::int64_t packets[] = {0, 64, kWholeMessage};
  for (std::size_t i = 0; i < out.size(); ++i) out[i].packet_bytes = packets[i % 3];
  return out;
}

double step_seconds(const Program&, const Action& action) { return static_cast<double>(action.box.volume()) * 1.3e-9; }

TEST(NetRun, EveryPlanOnEveryNetworkRunsAllItsLanesAndBytes) {
  int runs = 0, folds = 0;
  for (const int ranks : {2, 3, 4, 6, 8})
    for (const std::int64_t rows : {37, 48}) {  // uneven parts, and even ones
      for (const Plan& plan : testing_plans::all_plans(ranks, rows)) {
        const Traffic owed = traffic(plan).total;
        for (const Topology& topology : networks(ranks)) {
          const NetResult all = simulate(plan, topology, {{1, step_seconds}, Ranks::every});
          EXPECT_EQ(all.bytes, owed.bytes_to_peers) << plan.name << topology.name;
          EXPECT_EQ(all.signals, owed.signals_to_peers);
          EXPECT_EQ(all.simulated, ranks);
          const NetResult folded = simulate(plan, topology, {{1, step_seconds}, Ranks::folded});
          EXPECT_EQ(folded.end, all.end) << plan.name << " on " << topology.name << " of " << ranks;
          EXPECT_EQ(folded.bytes, all.bytes);
          EXPECT_EQ(folded.compute, all.compute);
          EXPECT_EQ(folded.bound, all.bound);
          EXPECT_EQ(folded.chain, all.chain) << plan.name << " on " << topology.name << " of " << ranks;
          ++runs;
          folds += folded.simulated < ranks;
        }
      }
    }
  EXPECT_GT(runs, 1400);
  EXPECT_GT(folds, 300);
}

// Nothing takes time but bytes, or not even these: all that happens, happens at a few instants, and ties decide.
TEST(NetRun, TiesAreBrokenAlikeInEveryClass) {
  int folds = 0;
  for (const int ranks : {4, 6, 8})
    for (const Plan& plan : testing_plans::all_plans(ranks, 48))
      for (Topology topology : networks(ranks))
        for (const double rate : {1e9, 1e18}) {
          for (DirectedLink& wire : topology.wires) wire.latency_s = 0, wire.bytes_per_s = rate;
          const NetResult all = simulate(plan, topology, {{}, Ranks::every});
          const NetResult folded = simulate(plan, topology, {{}, Ranks::folded});
          EXPECT_EQ(folded.end, all.end) << plan.name << " on " << topology.name << " of " << ranks;
          folds += folded.simulated < ranks;
        }
  EXPECT_GT(folds, 300);
}

// One that is no exception breaks the classes up, so that ties go by rank, as the reference has them.
TEST(NetRun, AgreesWithTheObviousSimulatorToThePicosecond) {
  for (const int ranks : {2, 4, 5, 6})
    for (const Plan& plan : testing_plans::all_plans(ranks, 23, 17))
      for (Topology topology : networks(ranks)) {
        slow_rank(&topology, ranks - 1, 1, "test");
        for (const bool computes : {false, true}) {
          const StepSeconds seconds = computes ? StepSeconds(step_seconds) : StepSeconds();
          Reference reference(plan, topology, seconds);
          const Time expected = reference.run();
          EXPECT_TRUE(reference.all_done());
          EXPECT_EQ(simulate(plan, topology, {{1, seconds}}).end, expected) << plan.name << " on " << topology.name;
        }
      }
}

TEST(NetRun, SlowRanksAndLinksShow) {
  const Plan plan = testing_plans::reduce_scatter_plan(testing_plans::small_gemm(64, 64, 8, 4), 4, Route::ring);
  Topology ring = ring_topology(4, kLink);
  const NetOptions options{{1, step_seconds}};
  const NetResult even = simulate(plan, ring, options);
  EXPECT_EQ(even.simulated, 1);
  slow_rank(&ring, 2, 3, "test");
  const NetResult slow = simulate(plan, ring, options);
  EXPECT_EQ(slow.simulated, 4);
  EXPECT_NEAR(static_cast<double>(slow.compute), 3.0 * static_cast<double>(even.compute), 100);
  EXPECT_GT(slow.end, even.end);
  EXPECT_EQ(slow.end, Reference(plan, ring, step_seconds).run());
  Topology wire = ring_topology(4, kLink);
  slow_wire(&wire, "rank 1", "rank 2", 50, "test");
  const NetResult jammed = simulate(plan, wire, options);
  EXPECT_EQ(jammed.hottest, 2);  // up from rank 1
  EXPECT_GT(jammed.end, even.end);
}

TEST(NetRun, TwoJobsShareTheirLinks) {
  const Plan plan = testing_plans::all_reduce_plan(testing_plans::small_copy(64, 64, 4), 4, Route::ring);
  const Topology one_way = switch_topology(8, kLink);
  const Time alone = simulate(plan, switch_topology(4, kLink)).end;
  const NetResult apart = simulate({{&plan, {0, 1, 2, 3}}, {&plan, {4, 5, 6, 7}}}, one_way);
  EXPECT_EQ(apart.ends, (std::vector<Time>{alone, alone}));
  const NetResult together = simulate({{&plan, {0, 1, 2, 3}}, {&plan, {0, 1, 2, 3}}}, one_way);
  EXPECT_GT(together.end, alone * 3 / 2);
  const NetResult later = simulate({{&plan, {0, 1, 2, 3}}, {&plan, {0, 1, 2, 3}, 1.0}}, one_way);
  EXPECT_EQ(later.ends[0], alone);
  EXPECT_EQ(later.ends[1], alone + 1000000000000);
}

// 64 tiles a chunk, made at about the rate of the links.
TEST(NetRun, HalvingTheBurstMovesNothingByMoreThanAPercent) {
  const Producer p = validated(gemm({.m = 1024, .n = 1024, .k = 64, .tile = {8, 128}}), 16);
  const auto seconds = [](const Program&, const Action& action) {
    return static_cast<double>(action.box.volume()) * 4 / 1e9;
  };
  for (const Plan& plan :
       {testing_plans::reduce_scatter_plan(p, 16, Route::ring), testing_plans::all_reduce_plan(p, 16, Route::two_shot),
        build_all_to_all(p, testing_plans::space_of(16, SpaceKind::all_to_all))})
    for (const Topology& topology : {torus_topology({4, 4}, {kLink, kLink}), switch_topology(16, kLink)}) {
      const auto time = [&](std::int64_t burst) { return simulate(plan, topology, {{burst, seconds}}).seconds(); };
      EXPECT_NEAR(time(1), time(2), 0.01 * time(2)) << plan.name << " on " << topology.name;
    }
}

TEST(NetRun, APlanThatGetsStuckNamesWhoWaitsForWhom) {
  Plan plan = testing::pair_plan();
  plan.rules[0].waits[0].lag = 0;  // for a credit of this run, which comes after
  const std::string text = refusal([&] { simulate(plan, switch_topology(2, kLink)); });
  EXPECT_NE(text.find("gets stuck"), std::string::npos) << text;
  EXPECT_NE(text.find("waits for credit"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0"), std::string::npos) << text;
  EXPECT_NE(text.find("wait for each other"), std::string::npos) << text;
}

TEST(NetRun, RefusesWhatDoesNotFit) {
  const Plan plan = testing_plans::all_reduce_plan(testing_plans::small_copy(8, 8, 4), 4, Route::ring);
  EXPECT_NE(refusal([&] { simulate(plan, switch_topology(3, kLink)); }).find("is for 4 ranks, but network"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              simulate({{&plan, {0, 1, 2, 7}}}, switch_topology(5, kLink));
            }).find("on rank 7"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              simulate({{&plan, {0, 1}}}, switch_topology(5, kLink));
            }).find("of which 2 are placed"),
            std::string::npos);
  EXPECT_NE(refusal([&] { simulate(plan, switch_topology(4, kLink), {{-1}}); }).find("bursts of -1"),
            std::string::npos);
  EXPECT_NE(refusal([&] { simulate(std::vector<Job>{}, switch_topology(4, kLink)); }).find("no plan"),
            std::string::npos);
  const Plan large = testing_plans::all_reduce_plan(testing_plans::small_copy(4096, 4096, 2), 2, Route::ring);
  EXPECT_NE(refusal([&] {
              simulate(large, switch_topology(2, {1, 0}), {{1 << 20}});
            }).find("26 days"),
            std::string::npos);
}

TEST(NetRun, SlicesAreWhatHappened) {
  const Plan plan = testing_plans::reduce_scatter_plan(testing_plans::small_gemm(16, 16, 8, 4), 4, Route::ring);
  NetOptions options{{1, step_seconds}};
  options.keep_slices = true;
  const NetResult result = simulate(plan, ring_topology(4, kLink), options);
  Time computed = 0;
  for (const StepSlice& slice : result.steps) computed += slice.end - slice.begin;
  EXPECT_EQ(computed, result.compute);  // one rank stands for all
  std::int64_t crossings = 0;
  for (const WireUse& use : result.wires) crossings += use.messages;
  EXPECT_EQ(static_cast<std::int64_t>(result.crossings.size()), crossings);
  EXPECT_EQ(crossings, result.hops);
}

}  // namespace
}  // namespace weft::netsim
