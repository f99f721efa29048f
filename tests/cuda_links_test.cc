// Links between ranks that share a GPU: paced, through the host by copy engines, and waits that do not end.
#include "weft/base/refusal_test.h"

#include "tests/cuda_case.h"

namespace weft {
namespace {

using testing_cuda::all_operands;
using testing_cuda::Cuda;
using testing_cuda::CudaCase;
using testing_cuda::error_of;
using testing_cuda::expect_deadline;
using testing_cuda::OnDevice;
using testing_cuda::run_case;

TEST_F(Cuda, AWaitPastItsDeadlineNamesRankPeerTileAndCountsAndTheGpuStaysUsable) {
  const CudaCase c{"ring", 1024, 512, 16, {128, 256}, 4, Route::ring};
  const Plan plan = testing_cuda::plan_of(c);
  const Expander expander(plan);
  DevicePlan tables = device_plan(plan, expander);
  for (DeviceLane& lane : tables.tables[2].lanes)
    if (lane.action == 0 && lane.lane == 3) lane.signals = 0;  // its tile is never announced to rank 3
  const OnDevice there(all_operands(c, 1));
  CudaExecutor executor(plan, tables, {.deadline = std::chrono::milliseconds(300)});
  executor.start(there.operands);
  // Rank 3, or those that wait for what rank 3 makes of it.
  expect_deadline([&] { executor.finish(); },
                  R"(rank [301] waited 0\.3 s for full\[\d+\] from rank [230] in step [123] of rank [301] )"
                  R"(\(ring, s = [123]\), tile 3 \[\d+:\d+, 256:512\]: saw 0 of 1 updates)");
  EXPECT_THROW(executor.start(there.operands), Error);
  run_case(c);
}

// A ring of N ranks sends N - 1 parts of N over each link.
TEST_F(Cuda, PacedLinksTakeAsLongAsTheirRateSaysAndTheResultIsTheSame) {
  const CudaCase c{"ring", 2048, 2048, 64, {128, 256}, 4, Route::ring};
  const Plan plan = testing_cuda::plan_of(c);
  const auto operands = all_operands(c, 1);
  const OnDevice there(operands);
  CudaExecutor at_once(plan, {});
  at_once.start(there.operands);
  at_once.finish();
  Pace pace;
  pace.bytes_per_s = 2e9;
  pace.latency_s = 20e-6;
  CudaExecutor paced(plan, {.pace = pace});
  DeviceTimer timer;
  paced.start(there.operands);
  timer.begin();
  for (int run = 0; run < 3; ++run) paced.start(there.operands);
  const double us = timer.end_us() / 3;
  paced.finish();
  const double floor = 2048.0 * 2048 * 2 * 3 / 4 / 2e9 * 1e6 + 20;
  EXPECT_GE(us, floor * 0.995);
  EXPECT_LE(us, testing_cuda::latest(floor * 1.10));
  for (int r = 0; r < c.ranks; ++r) {
    const std::size_t count = num(c.m * c.n / c.ranks);
    const auto a = from_device<std::uint16_t>(at_once.output(r), count);
    EXPECT_EQ(a, from_device<std::uint16_t>(paced.output(r), count)) << "rank " << r;
  }
}

// Through an outbox, copy engines and the host: what arrives is the same.
TEST_F(Cuda, CopyEnginesTakeTilesThroughTheHost) {
  for (const CudaCase& c : testing_cuda::other_cases())
    if (c.ranks == 3 || c.depth == 2) run_case(c, {.link = CudaLink::pcie, .crossing_bytes = 2 * kImageBytes});
  run_case({"ring", 1024, 768, 16, {128, 256}, 4, Route::ring}, {.link = CudaLink::pcie});
}

TEST_F(Cuda, RunsOverPcieFollowOneAnotherWithoutTheHostBitForBit) {
  CudaCase c{"ring", 2048, 1024, 72, {128, 256}, 4, Route::ring};
  for (const SpaceKind space : {SpaceKind::reduce_scatter, SpaceKind::all_reduce}) {
    c.space = space;
    const Plan plan = testing_cuda::plan_of(c);
    const auto first = all_operands(c, 1), second = all_operands(c, 2);
    const OnDevice there(first), then(second);
    CudaExecutor at_once(plan, {}), crossing(plan, {.link = CudaLink::pcie, .crossing_bytes = 8 * kImageBytes});
    at_once.start(then.operands);
    at_once.finish();
    for (int run = 0; run < testing_cuda::times(20, 4); ++run)
      crossing.start(run % 2 == 0 ? there.operands : then.operands);
    crossing.finish();
    for (int r = 0; r < c.ranks; ++r) {
      const std::size_t count = num(space == SpaceKind::all_reduce ? c.m * c.n : c.m * c.n / c.ranks);
      EXPECT_EQ(from_device<std::uint16_t>(at_once.output(r), count),
                from_device<std::uint16_t>(crossing.output(r), count))
          << "rank " << r;
    }
  }
}

TEST_F(Cuda, ACrossingWhoseTilesAreMissingIsNamedAndTheGpuStaysUsable) {
  const CudaCase c{"ring", 1024, 512, 16, {128, 256}, 4, Route::ring};
  const Plan plan = testing_cuda::plan_of(c);
  DevicePlan tables = device_plan(plan, Expander(plan));
  cross_by_copies(plan, &tables);
  for (DeviceLane& lane : tables.tables[2].lanes)
    if (lane.action == 0 && lane.lane == 3) lane.signals = 0;
  const OnDevice there(all_operands(c, 1));
  CudaExecutor executor(plan, tables, {.link = CudaLink::pcie, .deadline = std::chrono::milliseconds(300)});
  executor.start(there.operands);
  expect_deadline([&] { executor.finish(); },
                  R"(rank 2 waited 0\.3 s to send crossing \d+ to rank 3, of step 0 of rank 2 )"
                  R"(\(ring, s = 0\): saw 3 of 4 tiles)");
  EXPECT_THROW(executor.start(there.operands), Error);
  run_case(c, {.link = CudaLink::pcie});
}

TEST_F(Cuda, ARunOverPcieIsNotRecorded) {
  const CudaCase c{"ring", 256, 256, 64, {128, 256}, 2, Route::ring};
  const OnDevice there(all_operands(c, 1));
  CudaExecutor executor(testing_cuda::plan_of(c), {.link = CudaLink::pcie});
  EXPECT_EQ(refusal([&] { DeviceGraph graph([&] { executor.start(there.operands); }); }),
            "a run over pcie cannot be recorded in a graph; start it, or use another link");
}

// What leaves a host shares a link, and so does what enters it: rows for three peers take three times as long as over
// links of their own, and so do rows that three ranks have for one.
TEST_F(Cuda, SharedNicsAreSharedBySendersAndByReceivers) {
  const CudaCase c{"", 2048, 1024, 64, {128, 256}, 4, Route::direct, WeightLayout::nk, SpaceKind::all_to_all};
  const Plan plan = testing_cuda::plan_of(c);
  const OnDevice there(all_operands(c, 1));
  const std::vector<std::int64_t> to_all(4, 512), to_one{512, 0, 0, 0};
  for (const Fabric fabric : {Fabric::pairs, Fabric::nic})
    for (const auto& peers : {to_all, to_one}) {
      Pace pace;
      pace.bytes_per_s = 2e9, pace.latency_s = 20e-6, pace.fabric = fabric;
      CudaExecutor executor(plan, {.pace = pace});
      executor.limit(std::vector<Counts>(4, Counts{-1, peers}));
      executor.start(there.operands);
      DeviceTimer timer;
      const int runs = testing_cuda::times(3, 1);
      timer.begin();
      for (int run = 0; run < runs; ++run) executor.start(there.operands);
      const double us = timer.end_us() / runs;
      const double floor = 512.0 * 1024 * 2 / 2e9 * 1e6 * (fabric == Fabric::nic ? 3 : 1) + 20;
      executor.finish();
      EXPECT_GE(us, floor * 0.995) << (fabric == Fabric::nic ? "nic" : "pairs");
      EXPECT_LE(us, testing_cuda::latest(floor * 1.20)) << (fabric == Fabric::nic ? "nic" : "pairs");
    }
}

TEST_F(Cuda, OverPcieAKernelIsTimedWithoutItsCopies) {
  const CudaCase c{"", 2048, 1024, 64, {128, 256}, 4, Route::direct, WeightLayout::nk, SpaceKind::all_to_all};
  const Plan plan = testing_cuda::plan_of(c);
  const OnDevice there(all_operands(c, 1));
  CudaExecutor executor(plan, {.link = CudaLink::pcie}), at_once(plan, {});
  executor.start(there.operands);
  DeviceTimer timer;
  timer.begin();
  executor.start(there.operands);
  const double all_us = timer.end_us(), kernel_us = executor.kernel_us();
  executor.finish();
  EXPECT_GT(kernel_us, 0);
  EXPECT_LT(kernel_us, all_us);
  EXPECT_EQ(refusal([&] { at_once.kernel_us(); }), "kernels are timed over pcie alone; time the run");
}

TEST_F(Cuda, RefusesNicsOfSeveralLaunchesAndOperandsOfOtherRanks) {
  const CudaCase c{"ring", 256, 256, 64, {128, 256}, 2, Route::ring};
  const Plan plan = testing_cuda::plan_of(c);
  Pace nic;
  nic.bytes_per_s = 1e9, nic.fabric = Fabric::nic;
  EXPECT_EQ(refusal([&] { CudaExecutor(plan, {.pace = nic, .rank = 0}); }),
            "ranks with a launch each have no NIC in common; leave out \",nic\", or run all ranks in one launch");
  CudaExecutor executor(plan, {});
  EXPECT_EQ(refusal([&] { executor.start({}); }), "operands of 0 ranks are given, but 2 run here");
  const std::vector<Counts> counts(3);
  EXPECT_EQ(refusal([&] { executor.limit(counts); }), "counts of 3 ranks are given, but 2 run here");
  const float bias = 0;
  const std::vector<CudaOperands> two(2, {.bias = &bias});
  EXPECT_EQ(refusal([&] { executor.start(two); }),
            "plan \"gemm reduce_scatter ring\" has not a bias, but rank 0 gives one");
}

// Over links that are charged for the rows that count alone: a fourth of them takes a fourth of the time.
TEST_F(Cuda, PacedLinksCarryTheRowsThatCount) {
  const CudaCase c{"", 4096, 2048, 64, {128, 256}, 4, Route::direct, WeightLayout::nk, SpaceKind::all_to_all};
  Pace pace;
  pace.bytes_per_s = 2e9;
  pace.latency_s = 20e-6;
  CudaExecutor executor(testing_cuda::plan_of(c), {.pace = pace});
  const OnDevice there(all_operands(c, 1));
  const std::vector<std::int64_t> peers(4, 256);
  const std::vector<Counts> counts(4, Counts{-1, peers});
  for (const bool all : {true, false}) {
    executor.limit(all ? std::span<const Counts>() : std::span(counts));
    executor.start(there.operands);
    DeviceTimer timer;
    const int runs = testing_cuda::times(3, 1);
    timer.begin();
    for (int run = 0; run < runs; ++run) executor.start(there.operands);
    const double us = timer.end_us() / runs, floor = (all ? 1024.0 : 256.0) * 2048 * 2 / 2e9 * 1e6 + 20;
    executor.finish();
    EXPECT_GE(us, floor * 0.995) << all;
    EXPECT_LE(us, testing_cuda::latest(floor * 1.20)) << all;
  }
}

// Rows beyond the counts stay behind, and counts may change from run to run.
TEST_F(Cuda, CopyEnginesTakeTheRowsThatCount) {
  for (const testing_cuda::CountedCase& counted : testing_cuda::counted_cases()) {
    const CudaCase& c = counted.plan;
    const Plan plan = testing_cuda::plan_of(c);
    const std::vector<Counts> some = counted.counts();
    const auto operands = all_operands(c, 1);
    const OnDevice there(operands);
    CudaExecutor executor(plan, {.link = CudaLink::pcie, .crossing_bytes = 2 * kImageBytes});
    for (const bool all : {false, true}) {  // rows that nobody writes keep their zeros
      executor.limit(all ? std::span<const Counts>() : std::span(some));
      executor.start(there.operands);
      executor.finish();
      const auto expected = testing_cuda::reference_of(plan, operands, all ? std::span<const Counts>() : some);
      for (int r = 0; r < c.ranks; ++r)
        EXPECT_LE(error_of(executor, r, expected[at(r)]), 0.02) << c.name << " rank " << r << (all ? " all" : "");
    }
  }
}

}  // namespace
}  // namespace weft
