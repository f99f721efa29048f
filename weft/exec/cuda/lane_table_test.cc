#include "weft/exec/cuda/lane_table.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/exec/cuda/host_lanes.h"
#include "weft/exec/cuda/twin_test.h"
#include "weft/plan/price/traffic.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using testing_cuda::CudaCase;
using testing_cuda::expect_same;
using testing_cuda::expect_totals;
using testing_cuda::Given;

// Runs after one another on 3 clusters per rank; one run on 1 and on 16, where the first gives the same bits.
void expect_agreement(const CudaCase& c) {
  const Plan plan = testing_cuda::plan_of(c);
  const Expander expander(plan);
  const DevicePlan device = device_plan(plan, expander);
  HostLanes lanes(plan, device, 3), alone(plan, device, 1), many(plan, device, 16);
  for (const std::uint32_t run : {1, 2}) {
    const Given given(c, run);
    const auto expected = testing_cuda::reference_of(plan, given.operands);
    for (HostLanes* twin : {&lanes, &alone, &many}) {
      if (run > 1 && twin != &lanes) continue;
      ASSERT_EQ(twin->run(given.pointers), "") << c.name;
      expect_same(c, *twin, expected);
      expect_totals(c, expander, device, *twin, run);
    }
  }
}

TEST(LaneTable, HostLanesAgreeWithRefBitForBitAndCountersGrowByTheirTotals) {
  for (const CudaCase& c : testing_cuda::small_cases()) expect_agreement(c);
}

TEST(LaneTable, TriggersGathersCopiesAndEpiloguesAgreeToo) {
  for (const CudaCase& c : testing_cuda::other_cases()) {
    const Plan plan = testing_cuda::plan_of(c);
    const Expander expander(plan);
    const DevicePlan device = device_plan(plan, expander);
    for (const int clusters : {1, 16}) EXPECT_NO_THROW(require_ending(plan, device, clusters)) << c.name;
    HostLanes twin(plan, device, 3);
    for (const std::uint32_t run : {1, 2}) {
      const Given given(c, run);
      ASSERT_EQ(twin.run(given.pointers), "") << c.name;
      if (run == 1 && c.depth == 1) continue;
      expect_same(c, twin, testing_cuda::reference_of(plan, given.operands));
      expect_totals(c, expander, device, twin, run);
    }
  }
}

TEST(LaneTable, SumsOfF32AgreeToo) {
  for (const CudaCase& c : testing_cuda::wide_cases()) {
    const Plan plan = testing_cuda::plan_of(c);
    const DevicePlan device = device_plan(plan, Expander(plan));
    EXPECT_EQ(device.sums, Dtype::f32);
    HostLanes twin(plan, device, 3);
    const Given given(c, 1);
    ASSERT_EQ(twin.run(given.pointers), "") << c.name;
    if (c.depth == 1) expect_same(c, twin, testing_cuda::reference_of(plan, given.operands));
  }
}

TEST(LaneTable, PlansForAGpuAreProved) {
  for (const CudaCase& c : testing_cuda::other_cases()) {
    const Verdict verdict = verify(testing_cuda::plan_of(c));
    EXPECT_TRUE(verdict.ok()) << c.name << ": " << verdict.problems[0];
  }
}

// Both begin with zeros, so that rows which nobody writes are the same.
TEST(LaneTable, RunTimeCountsLeaveRowsOutAndAllCountersInStep) {
  for (const testing_cuda::CountedCase& counted : testing_cuda::counted_cases()) {
    const CudaCase& c = counted.plan;
    const Plan plan = testing_cuda::plan_of(c);
    const Expander expander(plan);
    const DevicePlan device = device_plan(plan, expander);
    HostLanes twin(plan, device, 2);
    const std::vector<Counts> all = counted.counts();
    const Given given(c, 1);
    const auto expected = testing_cuda::reference_of(plan, given.operands, all);
    ASSERT_EQ(twin.run(given.pointers, all), "") << c.name;
    expect_same(c, twin, expected);
    expect_totals(c, expander, device, twin, 1);
    double left_out = 0;
    for (const auto& values : expected)
      for (const float value : values) left_out += value == 0;
    EXPECT_GT(left_out, 1000);  // the counts did something
  }
}

TEST(LaneTable, ALargeCopyIsCutIntoPartsThatSignalOnce) {
  CudaCase c{"", 256, 256, 1024, {128, 256}, 2, Route::direct, WeightLayout::kn, SpaceKind::all_gather};
  c.gathers = true;
  const Plan plan = testing_cuda::plan_of(c);
  for (const int cols : {256, 64}) {
    const DevicePlan device = device_plan(plan, Expander(plan), {.part_cols = cols});
    std::map<int, std::set<int>> columns;  // of each part
    std::set<int> expected;
    for (int col = 0; col < 1024; col += cols) expected.insert(col);
    for (const DeviceLane& lane : device.tables[0].triggers) {
      if (lane.targets == 0) continue;
      EXPECT_EQ(lane.parts, 1024 / cols);
      EXPECT_EQ(lane.cols, cols);
      columns[lane.part].insert(lane.col);
    }
    EXPECT_EQ(device.tables[0].parted, 2);
    for (int part = 0; part < 2; ++part) EXPECT_EQ(columns[part], expected);
    HostLanes twin(plan, device, 2);
    const Given given(c, 1);
    ASSERT_EQ(twin.run(given.pointers), "");
    expect_same(c, twin, testing_cuda::reference_of(plan, given.operands));
  }
}

TEST(LaneTable, EveryTileIsMadeOnceInPairsOfOneColumn) {
  for (const CudaCase& c : testing_cuda::small_cases()) {
    const Plan plan = testing_cuda::plan_of(c);
    const Expander expander(plan);
    const DevicePlan device = device_plan(plan, expander);
    for (int r = 0; r < c.ranks; ++r) {
      const auto& lanes = device.tables[at(r)].lanes;
      ASSERT_EQ(lanes.size() % 2, 0u);
      std::set<std::pair<int, int>> corners;
      std::int64_t area = 0;
      for (std::size_t i = 0; i < lanes.size(); ++i) {
        EXPECT_EQ(lanes[i].col, lanes[i ^ 1].col) << c.name;
        EXPECT_EQ(lanes[i].action, lanes[i ^ 1].action) << c.name;
        if (lanes[i].lane < 0) {
          EXPECT_EQ(lanes[i].targets + lanes[i].signals + lanes[i].waits + lanes[i].sources, 0) << c.name;
          continue;
        }
        EXPECT_TRUE(corners.insert({lanes[i].row, lanes[i].col}).second) << c.name;
        area += std::int64_t{lanes[i].rows} * lanes[i].cols;
      }
      EXPECT_EQ(area, c.m * c.n) << c.name;
    }
  }
}

// Of four ranks 2048 rows each: eight pairs of tile rows, two or four at a time, and the rank's own before all others.
TEST(LaneTable, RowsThatComeFromAllPeersAtOnceAreTakenInTurn) {
  CudaCase c{"", 2048, 512, 64, {128, 256}, 4, Route::direct, WeightLayout::nk, SpaceKind::all_gather};
  c.gathers = true;
  for (const auto& [route, turn_rows] : {std::pair{Route::direct, 2}, {Route::direct, 4}, {Route::ring, 2}}) {
    c.route = route;
    const Plan plan = testing_cuda::plan_of(c);
    const DevicePlan device = device_plan(plan, Expander(plan), {.gathered_rows = turn_rows});
    std::vector<int> actions;  // as they begin
    for (const DeviceLane& lane : device.tables[1].lanes)
      if (actions.empty() || actions.back() != lane.action) actions.push_back(lane.action);
    const int own = actions[0];
    std::vector<int> expected{own};
    for (int turn = 0; turn < (route == Route::direct ? 8 / turn_rows : 1); ++turn)
      for (int peer = 1; peer < 4; ++peer) expected.push_back(own + peer);
    EXPECT_EQ(actions, expected) << to_string(route);
    for (const int clusters : {1, 16}) EXPECT_NO_THROW(require_ending(plan, device, clusters));
  }
}

// The same of sums for three owners, before those that the rank itself owns: four columns of tiles, a few at a time.
TEST(LaneTable, SumsForTheirOwnersMayBeMadeInTurn) {
  const CudaCase c{"direct", 2048, 1024, 16, {128, 256}, 4, Route::direct};
  const Plan plan = testing_cuda::plan_of(c);
  for (const int cols : {0, 1, 3}) {
    const DevicePlan device = device_plan(plan, Expander(plan), {.sent_cols = cols});
    std::vector<int> owners;  // as they begin
    for (const DeviceLane& lane : device.tables[1].lanes) {
      const int owner = static_cast<int>(lane.row / (c.m / 4));
      if (owners.empty() || owners.back() != owner) owners.push_back(owner);
    }
    std::vector<int> expected;
    for (int turn = 0; turn < (cols > 0 ? (4 + cols - 1) / cols : 1); ++turn)
      for (const int owner : {0, 3, 2}) expected.push_back(owner);
    expected.push_back(1);
    EXPECT_EQ(owners, expected) << cols;
    for (const int clusters : {1, 16}) EXPECT_NO_THROW(require_ending(plan, device, clusters));
    HostLanes twin(plan, device, 2);
    const Given given(c, 1);
    ASSERT_EQ(twin.run(given.pointers), "") << cols;
    expect_same(c, twin, testing_cuda::reference_of(plan, given.operands));
  }
}

TEST(LaneTable, ImagesOfARankAreApartAndInsideItsSegment) {
  const CudaCase c{"ring", 1024, 768, 64, {128, 256}, 4, Route::ring};
  const Plan plan = testing_cuda::plan_of(c);
  const Expander expander(plan);
  const DevicePlan device = device_plan(plan, expander);
  std::map<int, std::set<std::int64_t>> written;
  for (const LaneTable& table : device.tables)
    for (const DevicePlace& place : table.targets) {
      if (place.matrix >= 0) continue;
      EXPECT_EQ(place.offset % kImageBytes, 0);
      EXPECT_LE(place.offset + kImageBytes, device.layout[at(place.rank)].counters);
      EXPECT_TRUE(written[place.rank].insert(place.offset).second);
    }
  for (const LaneTable& table : device.tables)
    for (const DevicePlace& place : table.sources) EXPECT_TRUE(written[place.rank].contains(place.offset));
}

TEST(LaneTable, SignalsCoverTheBytesThatThePlanSends) {
  for (const CudaCase& c : testing_cuda::small_cases()) {
    const Plan plan = testing_cuda::plan_of(c);
    const Expander expander(plan);
    const DevicePlan device = device_plan(plan, expander);
    const PlanTraffic expected = traffic(plan);
    for (int r = 0; r < c.ranks; ++r) {
      Traffic found;
      for (const DeviceSignal& signal : device.tables[at(r)].signals) {
        found.bytes_to_peers += signal.bytes;
        ++(signal.rank == r ? found.local_signals : found.signals_to_peers);
      }
      EXPECT_EQ(found.bytes_to_peers, expected.ranks[at(r)].bytes_to_peers) << c.name;
      EXPECT_EQ(found.signals_to_peers, expected.ranks[at(r)].signals_to_peers) << c.name;
      EXPECT_EQ(found.local_signals, expected.ranks[at(r)].local_signals) << c.name;
    }
  }
}

TEST(LaneTable, AnOrderThatGetsStuckIsFoundOnTheHost) {
  const CudaCase c{"ring", 512, 512, 64, {128, 256}, 4, Route::ring};
  const Plan plan = testing_cuda::plan_of(c);
  const Expander expander(plan);
  DevicePlan device = device_plan(plan, expander);
  EXPECT_NO_THROW(require_ending(plan, device, 2));
  DevicePlan backwards = device;
  for (LaneTable& table : backwards.tables) std::reverse(table.lanes.begin(), table.lanes.end());
  EXPECT_THROW(require_ending(plan, backwards, 1), Error);
  for (DeviceLane& lane : device.tables[2].lanes)
    if (lane.lane == 1) lane.signals = 0;
  try {
    require_ending(plan, device, 2);
    FAIL() << "it ended";
  } catch (const Error& error) {
    EXPECT_EQ(
        std::string(error.what()).find("plan \"gemm reduce_scatter ring\" in the order of a GPU does not end: rank"),
        0u)
        << error.what();
  }
}

std::string refused(Plan plan) {
  const Expander expander(plan);
  return refusal([&] { device_plan(plan, expander); });
}

TEST(LaneTable, RefusesWhatAGpuCannotRunAndSaysWhatToDo) {
  const CudaCase good{"", 256, 256, 64, {128, 256}, 2, Route::ring};
  CudaCase c = good;
  c.n = 260;
  EXPECT_EQ(refused(testing_cuda::plan_of(c)),
            "n is 260 and k is 64; a GPU reads 16 bytes at a time: give n in multiples of 8, k in multiples of 8");
  c = good, c.tile = {256, 64};
  EXPECT_EQ(refused(testing_cuda::plan_of(c)),
            "tiles of 256 x 64 do not fit a GPU's; give the gemm .tile = {128, 256}");
  c = good, c.ranks = 9;
  EXPECT_EQ(refused(testing_cuda::plan_of(c)),
            "plan \"gemm reduce_scatter ring\" has 9 ranks; one GPU is shared by at most 8");
  Plan plan = testing_cuda::plan_of(good);
  plan.buffers[0].dtype = Dtype::f32;
  EXPECT_EQ(refused(plan),
            "plan \"gemm reduce_scatter ring\" keeps \"inbox\" as f32 and y as bf16; a GPU sums what is of one type");
  plan = testing_cuda::plan_of(good);
  plan.producers[0].weight = Dtype::f32;
  EXPECT_EQ(refused(plan),
            "w of plan \"gemm reduce_scatter ring\" is f32; tensor cores take bf16: give the gemm .x and .weight of "
            "that");
  plan = testing_cuda::plan_of(good);
  plan.producers[0].kind = ProducerKind::copy, plan.producers[0].input = Dtype::f32;
  EXPECT_EQ(refused(plan),
            "plan \"gemm reduce_scatter ring\" copies f32 rows to a bf16 output; on a GPU give both one type");
  plan = testing_cuda::plan_of(good);
  plan.producers[0].addend = true;
  EXPECT_EQ(refused(plan), "plan \"gemm reduce_scatter ring\" has an addend; the CUDA executor has none yet");
  plan = testing_cuda::plan_of(good);
  plan.producers[0].kind = ProducerKind::gemv;
  EXPECT_EQ(refused(plan),
            "plan \"gemm reduce_scatter ring\" is not one gemm, or one copy; the CUDA executor runs those, use the "
            "CPU's for others");
}

TEST(LaneTable, RefusesOrdersThatMakeNoSense) {
  const Plan plan = testing_cuda::plan_of({"", 256, 256, 64, {128, 256}, 2, Route::ring});
  const Expander expander(plan);
  for (const LaneOrder& order :
       {LaneOrder{.gathered_rows = 0}, {.sent_cols = -1}, {.part_cols = 0}, {.part_cols = kStripCols + 8}})
    EXPECT_NE(refusal([&] { device_plan(plan, expander, order); }).find("lanes cannot be made with"),
              std::string::npos);
  EXPECT_NO_THROW(device_plan(plan, expander, {.part_cols = 2 * kStripCols}));
}

}  // namespace
}  // namespace weft
