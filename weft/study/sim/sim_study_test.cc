// The simulator's cases and studies: which sub-layers, that each is simulated once, and that the figures of the studies
// hang together. Whether the paper's figures are met is SimCommand.TheTableMeetsItsBars.
#include <set>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/statistics.h"
#include "weft/study/sim/beyond.h"
#include "weft/study/sim/fit.h"
#include "weft/study/sim/pictures.h"
#include "weft/study/sim/study.h"

namespace weft::sim {
namespace {

SimCase mega_gpt(const std::string& layer) {
  for (const SimCase& one : fitted_cases())
    if (one.tp == 8 && one.layer.name == layer) return one;
  ADD_FAILURE() << "no " << layer;
  return {};
}

TEST(SimCases, AreTheSummedSubLayers) {
  EXPECT_EQ(fitted_cases().size(), 8u);
  EXPECT_EQ(predicted_cases().size(), 8u);
  EXPECT_EQ(paper_cases().size(), 16u);
  EXPECT_EQ(large_cases().size(), 12u);
  std::set<std::string> layers;
  for (const SimCase& one : paper_cases()) {
    layers.insert(one.layer.name);
    EXPECT_EQ(one.layer.after, Collective::all_reduce);
    EXPECT_TRUE(one.tp == 8 || one.tp == 16);
  }
  EXPECT_EQ(layers, (std::set<std::string>{"fc1_bwd", "fc2", "ip_bwd", "op"}));
}

TEST(SimCases, PlansCutTheLongerSide) {
  const SimShape tall{.m = 4096, .n = 512, .k = 64, .devices = 4}, wide{.m = 512, .n = 4096, .k = 64, .devices = 4};
  const Chip chip = load_chip("t3-paper");
  EXPECT_EQ(plans_of(tall, chip).fused.producers.front().m, 4096);
  EXPECT_EQ(plans_of(wide, chip).fused.producers.front().m, 4096);
  EXPECT_EQ(plans_of(wide, chip).fused.producers.front().n, 512);
  const SimCase one = mega_gpt("fc2");
  EXPECT_EQ(shape_of(one).m, one.layer.m);
  EXPECT_EQ(shape_of(one).devices, 8);
  EXPECT_EQ(shape_of(one).element_bytes, 2);
}

TEST(Simulator, SimulatesEachCaseOnce) {
  Simulator simulator(load_chip("t3-paper"));
  const SimCase one = mega_gpt("op");
  const CaseResult& first = simulator.run(one, Config::t3_mca);
  EXPECT_EQ(&first, &simulator.run(one, Config::t3_mca));
  EXPECT_EQ(&first, &simulator.run(shape_of(one), Config::t3_mca));
  EXPECT_EQ(simulator.speedup(one, Config::sequential), 1);
  EXPECT_GT(simulator.speedup(one, Config::t3_mca), 1);
  EXPECT_LE(simulator.speedup(one, Config::t3), simulator.speedup(one, Config::t3_mca));
}

// Chunks of the output by 2, 4, 8 devices: bytes that follow from counting alone.
TEST(SimSummary, TrafficIsThatOfTheCountingModel) {
  const Counted want = counted({.m = 1024, .n = 512, .k = 64, .devices = 4});
  const std::int64_t chunk = 1024 * 512 * 2 / 4;
  EXPECT_EQ(want.sequential_rs_read, 7 * chunk);
  EXPECT_EQ(want.t3_rs_read, 2 * chunk);
  EXPECT_EQ(want.sequential_write, 8 * chunk);
  EXPECT_EQ(want.t3_write, 6 * chunk);
  Simulator simulator(load_chip("t3-paper"));
  EXPECT_TRUE(counts_agree(simulator, mega_gpt("fc2")));
}

// Parameters were frozen on 8 and 16 devices; on 32 T3-MCA stays as near to ideal, as the paper has it.
TEST(SimSummary, OnThirtyTwoDevicesCommunicationIsHiddenAsWell) {
  Simulator simulator(load_chip("t3-paper"));
  std::vector<double> ideal, mca;
  for (const SimCase& one : large_cases()) {
    EXPECT_EQ(one.tp, 32);
    ideal.push_back(simulator.speedup(one, Config::ideal_overlap));
    mca.push_back(simulator.speedup(one, Config::t3_mca));
  }
  EXPECT_NEAR(100 * geomean(ideal), 100 * geomean(mca), 6);
}

TEST(SimSummary, OrdersTheConfigurations) {
  Simulator simulator(load_chip("t3-paper"));
  const std::vector<SimCase> cases{mega_gpt("op"), mega_gpt("fc2")};
  const SimSummary seen = summary(simulator, cases);
  EXPECT_LE(seen.t3.geomean, seen.t3_mca.geomean);
  EXPECT_LE(seen.t3_mca.geomean, seen.t3_mca.max);
  EXPECT_LE(seen.ideal.geomean, seen.ideal_nmc.geomean + 1e-9);
  EXPECT_GT(seen.traffic_cut, 0);
  EXPECT_LE(seen.traffic_cut, seen.traffic_cut_max);
  EXPECT_GT(seen.nmc_8, 0);
  EXPECT_EQ(seen.nmc_16, 0);  // no case of that degree
  const std::vector<PaperRow> rows = paper_rows(seen, seen, seen);
  EXPECT_EQ(rows.size(), 14u);
  for (const PaperRow& row : rows) {
    EXPECT_EQ(row.fitted, row.all);
    EXPECT_EQ(row.is_open, row.what.starts_with("T3, "));
  }
  EXPECT_GT(fit_cost(seen, simulator, cases), 0);
}

// Step by step a ring pays every latency; tile by tile the links never idle, and latencies overlap.
TEST(SimStudy, NoReduceScatterIsFasterThanItsLinks) {
  const Chip chip = load_chip("t3-paper");
  const std::vector<ScatterAlone> rows = scatter_alone(chip);
  EXPECT_EQ(rows.size(), 12u);
  for (const ScatterAlone& row : rows) {
    EXPECT_GE(row.tiles_us, row.bound_us - (row.devices - 1) * chip.link_latency_s * 1e6);
    EXPECT_GE(row.steps_us, row.bound_us);
    EXPECT_GE(row.steps_us, row.tiles_us);
    EXPECT_LE(row.nmc_us, row.steps_us);
  }
}

TEST(SimStudy, FasterLinksLeaveLessToGain) {
  const Sweep map = sweep(load_chip("t3-paper"), mega_gpt("op"));
  ASSERT_EQ(map.cells.size(), map.links.size() * map.cus.size());
  for (std::size_t i = 0; i < map.cells.size(); ++i) {
    EXPECT_EQ(map.cells[i].link_bytes_per_s, map.links[i % map.links.size()]);
    EXPECT_EQ(map.cells[i].cus, map.cus[i / map.links.size()]);
    EXPECT_GT(map.cells[i].t3_mca, 0.5);
  }
  EXPECT_NE(sweep_svg(map, "t3-paper").find("T3-MCA"), std::string::npos);
}

TEST(SimStudy, AConsumerThatTakesTheGatherIsFasterThanOneThatWaits) {
  Simulator simulator(load_chip("t3-paper"));
  const std::vector<ConsumerRow> rows = with_consumer(simulator, {mega_gpt("op"), mega_gpt("fc2")});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].consumer, "fc1");
  EXPECT_EQ(rows[1].consumer, "ip");
  for (const ConsumerRow& row : rows) {
    EXPECT_LT(row.both_us, row.t3_mca_us);
    EXPECT_LT(row.t3_mca_us, row.sequential_us);
  }
}

TEST(SimStudy, ExchangesHideUnderTheirProduct) {
  for (const ExchangeRow& row : exchanges(load_chip("t3-paper"))) {
    EXPECT_GE(row.tracker_us, row.product_us * 0.99) << row.model;
    EXPECT_LT(row.tracker_us, row.product_us + row.exchange_us) << row.model;
  }
}

TEST(SimPictures, AreDrawnFromTheResults) {
  Simulator simulator(load_chip("t3-paper"));
  const std::string svg = over_time_svg(simulator, mega_gpt("op"), Config::t3_mca);
  EXPECT_NE(svg.find("mega-gpt-2 8 op: DRAM traffic over time, t3_mca"), std::string::npos);
  T3Band band{.switch_ns = {0, 5}, .grant_bytes = {1024}, .cells = {{10, 20}, {12, 25}}, .fifo = {15, 30}};
  EXPECT_NE(band_svg(band).find("15.0 %"), std::string::npos);
}

}  // namespace
}  // namespace weft::sim
