#include "weft/sim/net/report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/plan/plans_test.h"
#include "weft/sim/net/step_times.h"

namespace weft::netsim {
namespace {

const Link kTen{10e9, 1e-6};

TEST(NetReport, LinksOfAClassAreOneRow) {
  const Plan plan = testing_plans::all_reduce_plan(testing_plans::small_copy(64, 64, 8), 8, Route::ring);
  const Topology ring = ring_topology(8, kTen);
  const NetResult folded = simulate(plan, ring), every = simulate(plan, ring, {{}, Ranks::every});
  const std::vector<HotLink> one = hottest_links(folded, ring, 100), all = hottest_links(every, ring, 100);
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(all.size(), 8u);
  EXPECT_EQ(one[0].count, 8);
  EXPECT_EQ(one[0].name, "rank 0 -> rank 1");
  std::int64_t bytes = 0;
  for (const HotLink& link : all) {
    EXPECT_EQ(link.bytes, one[0].bytes);
    EXPECT_EQ(link.count, 1);
    bytes += link.bytes;
  }
  EXPECT_EQ(bytes, every.bytes);  // one hop each
  EXPECT_EQ(hottest_links(every, ring, 3).size(), 3u);
  EXPECT_NEAR(one[0].share, one[0].busy_s / folded.seconds(), 1e-12);
}

TEST(NetReport, TheHottestComesFirst) {
  const Plan plan = testing_plans::all_reduce_plan(testing_plans::small_copy(64, 64, 8), 8, Route::ring);
  Topology ring = ring_topology(8, kTen);
  slow_wire(&ring, "rank 5", "rank 6", 3, "test");
  const std::vector<HotLink> links = hottest_links(simulate(plan, ring), ring, 2);
  EXPECT_EQ(links[0].name, "rank 5 -> rank 6");
  EXPECT_NEAR(links[0].busy_s, 3 * links[1].busy_s, 1e-12);
}

TEST(NetReport, ATraceHasStepsAndLinks) {
  const Producer p = testing_plans::small_gemm(32, 32, 8, 4);
  const Plan plan = testing_plans::reduce_scatter_plan(p, 4, Route::ring);
  const Topology ring = ring_topology(4, kTen);
  NetOptions options{{1, [](const Program&, const Action&) { return 1e-6; }}, Ranks::every, true};
  const NetResult result = simulate(plan, ring, options);
  const auto count = [&](const NetTraceOptions& shown, const std::string& category) {
    const auto trace = nlohmann::json::parse(net_trace(result, {&plan}, ring, shown));
    int slices = 0;
    for (const auto& event : trace["traceEvents"]) slices += event.value("cat", "") == category;
    return slices;
  };
  EXPECT_EQ(count({4, 64}, "compute"), 4 * 32);  // tiles of 4 x 8 on each rank
  EXPECT_EQ(count({2, 64}, "compute"), 2 * 32);
  EXPECT_EQ(count({4, 64}, "link"), result.messages);
  EXPECT_EQ(count({4, 1}, "link"), result.messages / 4);
}

TEST(StepTimes, FollowFromRates) {
  const Producer p = validated(gemm({.m = 64, .n = 64, .k = 16, .tile = {8, 64}}), 2);
  const Plan plan = build_keep(p, 2);
  const Program program = Expander(plan).program(0);
  StepRates rates{1e9, 1e12, 1e12, 1e12, 0};
  EXPECT_NEAR(step_seconds(plan, rates)(program, program.actions[0]), 2.0 * 64 * 64 * 16 / 1e9, 1e-12);
  rates.tile_s = 1e-6;
  EXPECT_NEAR(step_seconds(plan, rates)(program, program.actions[0]), 2.0 * 64 * 64 * 16 / 1e9 + 8e-6, 1e-12);
  rates = {1e15, 1e9, 2e9, 1e12, 0};  // rows and weights read, tiles written
  EXPECT_NEAR(step_seconds(plan, rates)(program, program.actions[0]), 2.0 * 64 * 16 * 4 / 1e9 + 64.0 * 64 * 4 / 2e9,
              1e-12);
  const Plan bags = build_keep(validated(embedding_bag({.tables = 2, .rows = 10, .dim = 4, .batch = 8}), 2), 2);
  const Program lookups = Expander(bags).program(0);
  rates = {1e15, 1e15, 1e15, 1e9, 0, 10};
  EXPECT_NEAR(step_seconds(bags, rates)(lookups, lookups.actions[0]), 8.0 * 2 * 4 * 4 * 10 / 1e9, 1e-12);
  const sim::Chip chip = sim::load_chip("t3-paper");
  EXPECT_EQ(rates_of(chip).flops_per_s, chip.flops_per_s());
  EXPECT_EQ(rates_of(default_cluster()).tile_s, default_cluster().step_s);
}

TEST(StepTimes, ATableHasEveryStep) {
  const Plan plan = testing_plans::reduce_scatter_plan(testing_plans::small_gemm(32, 32, 8, 4), 4, Route::ring);
  const StepTable table = parse_step_table(R"({"name": "t", "seconds_per_tile": {"ring": 2e-6}})", "t.json");
  const Program program = Expander(plan).program(0);
  EXPECT_NEAR(step_seconds(plan, table)(program, program.actions[0]),
              2e-6 * static_cast<double>(program.actions[0].lanes), 1e-15);
  EXPECT_EQ(
      refusal([&] { step_seconds(plan, parse_step_table(R"({"name": "t", "seconds_per_tile": {}})", "t.json")); }),
      "table \"t\" has no time for \"ring\", a step of plan \"gemm reduce_scatter ring\"; add it to "
      "\"seconds_per_tile\"");
  for (const char* text : {"", "{}", R"({"name": "t", "seconds_per_tile": {"ring": -1}})",
                           R"({"name": "t", "seconds_per_tile": {"ring": "1"}})", R"({"name": "t", "tiles": {}})"})
    EXPECT_EQ(refusal([&] { parse_step_table(text, "t.json"); }).find("t.json"), 0u) << text;
}

// A step that computes as long as its bytes travel hides them but for the last.
TEST(StepTimes, ComputingHidesCommunication) {
  const Producer p = validated(gemm({.m = 512, .n = 512, .k = 64, .tile = {8, 512}}), 8);
  const Plan plan = testing_plans::reduce_scatter_plan(p, 8, Route::ring);
  const double a_tile = 8 * 512 * 4 / kTen.bytes_per_s;
  const auto seconds = [&](const Program&, const Action& action) {
    return 1.2 * a_tile * static_cast<double>(action.lanes);
  };
  const Topology ring = ring_topology(8, kTen);
  const NetResult fused = simulate(plan, ring, {{1, seconds}}), alone = simulate(plan, ring, {{1}});
  EXPECT_LT(fused.exposed_seconds(), 0.1 * alone.seconds());
  EXPECT_NEAR(sim::to_seconds(fused.compute), 64 * 1.2 * a_tile, 1e-9);
}

}  // namespace
}  // namespace weft::netsim
