// Kernels of their own on a GPU: gemvs of few rows, embedding bags; and windows.
#include "weft/exec/cuda/small/bag_executor.h"
#include "weft/exec/cuda/small/bags_test.h"
#include "weft/exec/cuda/small/gemv_executor.h"
#include "weft/exec/cuda/window/window_map.h"

#include "tests/cuda_bags.h"
#include "tests/cuda_case.h"

namespace weft {
namespace {

using testing_cuda::all_operands;
using testing_cuda::BagsOnDevice;
using testing_cuda::Cuda;
using testing_cuda::CudaCase;
using testing_cuda::error_of;
using testing_cuda::expect_deadline;
using testing_cuda::gemv_case;
using testing_cuda::OnDevice;
using testing_cuda::tolerance;

// 16 columns per tile: fewer tiles than groups, and several for each; depths that fill no block, one, and several.
TEST_F(Cuda, GemvsOfFewRowsAgreeWithTheReference) {
  for (const std::int64_t rows : {1, 3, 4, 8, 16})
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const auto& [n, k] : {std::pair{96, 32}, std::pair{4800, 96}, std::pair{528, 1184}, std::pair{2048, 0}}) {
        if (ranks == 1 && k == 0) continue;
        const CudaCase c = gemv_case(rows, n, k, ranks);
        const Plan plan = testing_cuda::plan_of(c);
        CudaGemv gemv(plan, {});
        for (int run = 1; run <= testing_cuda::times(3, 1); ++run) {
          const auto operands = all_operands(c, static_cast<std::uint64_t>(run));
          const auto expected = testing_cuda::reference_of(plan, operands);
          const OnDevice there(operands);
          gemv.start(there.operands);
          gemv.finish();
          for (int r = 0; r < ranks; ++r)
            ASSERT_LE(error_of(gemv.output(r), expected[at(r)]), tolerance(c))
                << rows << " rows, " << ranks << " ranks, n " << n << ", k " << k << ", rank " << r << ", run " << run;
        }
      }
}

TEST_F(Cuda, GemvsFollowOneAnotherAsAGraphOfDependentLaunches) {
  const CudaCase c = gemv_case(4, 4096, 512, 4);
  const Plan plan = testing_cuda::plan_of(c);
  const auto first = all_operands(c, 1), second = all_operands(c, 2);
  const OnDevice there(first), then(second);
  CudaGemv gemv(plan, {.launch = Launch::dependent});
  DeviceGraph graph([&] {
    for (int run = 0; run < testing_cuda::times(50, 4); ++run)
      gemv.start(run % 2 == 0 ? there.operands : then.operands);
  });
  for (int launch = 0; launch < testing_cuda::times(20, 2); ++launch) graph.launch();
  gemv.finish();
  const auto expected = testing_cuda::reference_of(plan, second);
  for (int r = 0; r < c.ranks; ++r) EXPECT_LE(error_of(gemv.output(r), expected[at(r)]), 0.02) << "rank " << r;
}

TEST_F(Cuda, AWordThatNeverComesNamesRankTileAndPeer) {
  const CudaCase c = gemv_case(4, 512, 64, 4);
  const Plan plan = testing_cuda::plan_of(c);
  GemvPlan tables = gemv_plan(plan, Expander(plan));
  for (int i = 0; i < tables.num_targets; ++i) {
    GemvTarget& target = tables.tables[1].targets[at(5 * tables.num_targets + i)];
    if (target.rank == 3) target = tables.tables[1].targets[at(5 * tables.num_targets)];
  }
  const OnDevice there(all_operands(c, 1));
  CudaGemv gemv(plan, tables, {.deadline = std::chrono::milliseconds(200)});
  gemv.start(there.operands);
  // Who should have written it is found in the tables, which say otherwise here.
  expect_deadline([&] { gemv.finish(); }, R"(rank 3 waited 0\.2 s for tile 5 \[0:4, 80:96\] of rank .*)");
  EXPECT_THROW(gemv.start(there.operands), Error);
}

// One host thread, a queue per rank, no world: launches of one rank each meet on the device alone.
TEST_F(Cuda, BagsOfLaunchesOfOneRankEachMeetOnTheDevice) {
  for (const testing_cuda::BagCase& c : testing_cuda::bag_cases()) {
    if (c.ranks == 1) continue;
    const Plan plan = testing_cuda::bag_plan_of(c);
    std::vector<testing_cuda::BagInputs> inputs;
    for (int r = 0; r < c.ranks; ++r) inputs.emplace_back(c, r, 5);
    const auto expected = testing_cuda::bag_reference(plan, inputs);
    const BagsOnDevice there(inputs);
    std::vector<std::unique_ptr<CudaBags>> bags;
    std::vector<std::unique_ptr<DeviceQueue>> queues;
    std::vector<std::byte*> segments;
    for (int r = 0; r < c.ranks; ++r) {
      bags.push_back(std::make_unique<CudaBags>(
          plan, CudaBagOptions{.deadline = std::chrono::seconds(2), .rank = r, .launches = c.ranks}));
      queues.push_back(std::make_unique<DeviceQueue>(QueueKind::apart));
      segments.push_back(bags.back()->segment(r));
    }
    for (const auto& one : bags) one->connect(segments);
    for (int run = 0; run < 4; ++run)
      for (int r = 0; r < c.ranks; ++r) bags[at(r)]->start({&there.operands[at(r)], 1}, queues[at(r)]->handle());
    for (int r = 0; r < c.ranks; ++r) {
      try {
        bags[at(r)]->finish();
      } catch (const Error& error) {
        ADD_FAILURE() << c.ranks << " ranks, batch " << c.batch << ": " << error.what();
      }
    }
    for (int r = 0; r < c.ranks; ++r) {
      const auto& wanted = expected[at(r)];
      EXPECT_EQ(from_device<float>(bags[at(r)]->output(r), wanted.size()), wanted) << c.ranks << " ranks, rank " << r;
      const auto counters = bags[at(r)]->counters(r);
      for (std::size_t i = 0; i < counters.size(); ++i)
        if (counters[i] != 4 * bags[at(r)]->tables().meetings[at(r)].totals[i] && counters[i] != 0)
          ADD_FAILURE() << c.ranks << " ranks, rank " << r << ", counter " << i << " is " << counters[i] << " of 4 x "
                        << bags[at(r)]->tables().meetings[at(r)].totals[i];
    }
  }
}

TEST_F(Cuda, BagsAgreeWithTheReferenceStraightAndThroughTheHost) {
  for (const testing_cuda::BagCase& c : testing_cuda::bag_cases())
    for (const CudaLink link : {CudaLink::hbm, CudaLink::pcie}) {
      const Plan plan = testing_cuda::bag_plan_of(c);
      CudaBags bags(plan, {.link = link, .crossing_bytes = 64 * 1024});
      for (const std::uint32_t run : {1, 2, 3}) {
        std::vector<testing_cuda::BagInputs> inputs;
        for (int r = 0; r < c.ranks; ++r) inputs.emplace_back(c, r, run);
        const BagsOnDevice there(inputs);
        bags.start(there.operands);
        bags.finish();
        const auto expected = testing_cuda::bag_reference(plan, inputs);
        for (int r = 0; r < c.ranks; ++r) {
          const auto found = from_device<float>(bags.output(r), expected[at(r)].size());
          for (std::size_t i = 0; i < found.size(); ++i)
            ASSERT_FLOAT_EQ(found[i], expected[at(r)][i]) << c.ranks << " ranks, rank " << r << ", element " << i;
        }
      }
    }
}

TEST_F(Cuda, BagsRaiseTheCountersOfTheirPlan) {
  const testing_cuda::BagCase c{2, 64, 512, 4, 4};
  const Plan plan = testing_cuda::bag_plan_of(c);
  const Expander expander(plan);
  CudaBags bags(plan, {});
  std::vector<testing_cuda::BagInputs> inputs;
  for (int r = 0; r < c.ranks; ++r) inputs.emplace_back(c, r, 1);
  const BagsOnDevice there(inputs);
  for (int run = 0; run < 5; ++run) bags.start(there.operands);
  bags.finish();
  for (const auto& lanes : bags.tables().lanes)
    for (const BagLane& lane : lanes) {
      if (lane.signal_rank < 0) continue;
      const int counter = static_cast<int>(lane.counter);
      ASSERT_EQ(bags.counters(lane.signal_rank)[lane.counter], 5 * expander.counter_total(counter, lane.signal_rank));
    }
}

// 2 MB for each receiver: rank r writes r * 4 + d into what is for rank d.
TEST_F(Cuda, WhatIsWrittenThroughAWindowLiesAtItsReceivers) {
  const CudaCase c{"", 4096, 1024, 16, {128, 256}, 4, Route::direct, WeightLayout::nk, SpaceKind::all_to_all};
  const Plan plan = testing_cuda::plan_of(c);
  MappedWindows windows(plan);
  const std::int64_t part = 1024 * 1024;
  for (int r = 0; r < 4; ++r) {
    std::vector<std::uint16_t> made;
    for (int d = 0; d < 4; ++d) made.insert(made.end(), num(part), static_cast<std::uint16_t>(r * 4 + d));
    const DeviceMemory from = on_device(made);
    copy_on_device(windows.window(r), from.data(), from.bytes());
  }
  for (int d = 0; d < 4; ++d) {
    const auto found = from_device<std::uint16_t>(windows.output(d), num(4 * part));
    for (int r = 0; r < 4; ++r)
      for (const std::int64_t i : {std::int64_t{0}, part / 2, part - 1})
        EXPECT_EQ(found[at(r * part + i)], r * 4 + d) << "from rank " << r << " to rank " << d;
  }
}

}  // namespace
}  // namespace weft
