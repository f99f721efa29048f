// The CUDA executor on a GPU, against the reference executor; `make test-gpu` runs it. Where there is no GPU every test
// is skipped, by name.
#include <cmath>
#include <regex>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/exec/cuda/device.h"
#include "weft/exec/cuda/executor.h"
#include "weft/exec/cuda/plans_test.h"

namespace weft {
namespace {

using testing_cuda::CudaCase;
using testing_cuda::Operands;

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!device_facts()) GTEST_SKIP() << "there is no GPU here";
  }
};

// Operands of all ranks on the device.
struct OnDevice {
  std::vector<DeviceMemory> memory;
  std::vector<CudaOperands> operands;

  explicit OnDevice(const std::vector<Operands>& from) {
    for (const Operands& o : from) {
      const void *x = kept(o.x), *w = kept(o.w), *bias = kept(o.bias), *residual = kept(o.residual);
      operands.push_back({x, w, static_cast<const float*>(bias), static_cast<const float*>(residual)});
    }
  }

 private:
  template <typename T>
  const void* kept(const std::vector<T>& values) {
    if (values.empty()) return nullptr;
    memory.push_back(on_device(values));
    return memory.back().data();
  }
};

std::vector<Operands> all_operands(const CudaCase& c, std::uint64_t seed) {
  std::vector<Operands> out;
  for (int r = 0; r < c.ranks; ++r) out.push_back(testing_cuda::operands_of(c, r, seed));
  return out;
}

// Largest |a - b| / (1 + |b|) of a rank's output.
double error_of(const CudaExecutor& executor, int rank, const std::vector<float>& expected) {
  const auto found = from_device<bf16>(executor.output(rank), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = std::abs(to_float(found[i]) - expected[i]) / (1 + std::abs(expected[i]));
    worst = std::isnan(e) ? INFINITY : std::max(worst, e);
  }
  return worst;
}

// Three runs with fresh inputs.
void run_case(const CudaCase& c) {
  const Plan plan = testing_cuda::plan_of(c);
  const Expander expander(plan);
  CudaExecutor executor(plan, {});
  for (const std::uint32_t run : {1, 2, 3}) {
    const auto operands = all_operands(c, run);
    const auto expected = testing_cuda::reference_of(plan, operands);
    const OnDevice there(operands);
    executor.start(there.operands);
    executor.finish();
    for (int r = 0; r < c.ranks; ++r) {
      ASSERT_LE(error_of(executor, r, expected[at(r)]), 0.02) << c.name << " rank " << r << " run " << run;
      const auto counters = executor.counters(r);
      for (const std::uint32_t i : testing_cuda::signalled(executor.tables(), r))
        ASSERT_EQ(counters[i], run * expander.counter_total(static_cast<int>(i), r)) << c.name << " counter " << i;
    }
  }
}

TEST_F(Cuda, AgreesWithTheReferenceWhateverTheShapeRouteAndLayout) {
  for (CudaCase c : testing_cuda::small_cases())
    for (const WeightLayout layout : {WeightLayout::kn, WeightLayout::nk}) {
      c.layout = layout;
      run_case(c);
    }
}

TEST_F(Cuda, TriggersGathersCopiesAndEpiloguesAgreeToo) {
  for (const CudaCase& c : testing_cuda::other_cases()) run_case(c);
}

// Rows that nobody writes keep their zeros: one run each.
TEST_F(Cuda, RunTimeCountsLeaveRowsOutAndAllCountersInStep) {
  for (const auto& [route, space] :
       {std::pair{Route::direct, SpaceKind::all_to_all}, std::pair{Route::staged, SpaceKind::all_to_all},
        std::pair{Route::ring, SpaceKind::reduce_scatter}, std::pair{Route::two_shot, SpaceKind::all_reduce},
        std::pair{Route::ring, SpaceKind::all_reduce}}) {
    const CudaCase c{std::string(to_string(route)), 780, 264, 16, {128, 256}, 3, route, WeightLayout::nk, space};
    const Plan plan = testing_cuda::plan_of(c);
    const std::vector<std::int64_t> peers{0, 77, 260};
    Counts counts;
    if (space == SpaceKind::all_to_all)
      counts.peers = peers;
    else
      counts.rows = 300;
    const std::vector<Counts> all(3, counts);
    const auto operands = all_operands(c, 1);
    const OnDevice there(operands);
    CudaExecutor executor(plan, {});
    executor.limit(all);
    executor.start(there.operands);
    executor.finish();
    auto expected = testing_cuda::reference_of(plan, operands, all);
    for (int r = 0; r < 3; ++r) EXPECT_LE(error_of(executor, r, expected[at(r)]), 0.02) << c.name << " rank " << r;
    executor.limit({});  // all rows again
    executor.start(there.operands);
    executor.finish();
    expected = testing_cuda::reference_of(plan, operands);
    for (int r = 0; r < 3; ++r) EXPECT_LE(error_of(executor, r, expected[at(r)]), 0.02) << c.name << " rank " << r;
  }
}

// Five launches of three runs each: the number of a run is on the device, so what is recorded once goes on counting.
TEST_F(Cuda, RunsAreRecordedOnceAndLaunchedAsAGraph) {
  CudaCase c{"", 1024, 512, 72, {128, 256}, 4, Route::ring, WeightLayout::nk, SpaceKind::all_reduce};
  c.depth = 2;
  const Plan plan = testing_cuda::plan_of(c);
  const Expander expander(plan);
  const auto operands = all_operands(c, 3);
  const OnDevice there(operands);
  CudaExecutor executor(plan, {});
  executor.start(there.operands);
  executor.finish();
  DeviceGraph graph([&] {
    for (int run = 0; run < 3; ++run) executor.start(there.operands);
  });
  for (int launch = 0; launch < 5; ++launch) graph.launch();
  executor.finish();
  const auto expected = testing_cuda::reference_of(plan, operands);
  for (int r = 0; r < c.ranks; ++r) {
    EXPECT_LE(error_of(executor, r, expected[at(r)]), 0.02);
    const auto counters = executor.counters(r);
    for (const std::uint32_t i : testing_cuda::signalled(executor.tables(), r))
      ASSERT_EQ(counters[i], 16 * expander.counter_total(static_cast<int>(i), r)) << "counter " << i;
  }
}

TEST_F(Cuda, SevenAndEightRanksShareOneGpu) {
  for (const int ranks : {7, 8})
    for (const Route route : {Route::ring, Route::direct}) run_case({"many", 1024, 512, 16, {128, 256}, ranks, route});
}

// Whole numbers, whose products are exact in any order; two ranks' are large and cancel. So every bit depends on the
// order in which ranks are added and on where sums are rounded, and on nothing else.
TEST_F(Cuda, SumsAreFoldedInThePlansOrderBitForBit) {
  for (const Route route : {Route::ring, Route::direct}) {
    const CudaCase c{std::string(to_string(route)), 520, 776, 64, {128, 256}, 4, route};
    auto operands = all_operands(c, 5);
    for (int r = 0; r < 4; ++r) {
      const bool large = r == 1 || r == 2;
      Operands& o = operands[at(r)];
      if (r == 2) o = operands[1];
      for (std::size_t i = 0; i < o.x.size() && r != 2; ++i)
        o.x[i] = to_bf16(std::round(to_float(o.x[i]) * 3) * (large ? 4096.0f : 1.0f));
      for (bf16& w : o.w) w = to_bf16(r == 2 ? -to_float(w) : std::round(to_float(w) * 3) * (large ? 4096.0f : 1.0f));
    }
    const Plan plan = testing_cuda::plan_of(c);
    const OnDevice there(operands);
    CudaExecutor executor(plan, {});
    executor.start(there.operands);
    executor.finish();
    const auto expected = testing_cuda::reference_of(plan, operands);
    for (int r = 0; r < 4; ++r) {
      const auto found = from_device<bf16>(executor.output(r), expected[at(r)].size());
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_EQ(to_float(found[i]), expected[at(r)][i]) << c.name << " rank " << r << " element " << i;
    }
  }
}

TEST_F(Cuda, RunsFollowOneAnotherWithoutTheHost) {
  const CudaCase c{"ring", 1024, 512, 72, {128, 256}, 4, Route::ring};
  const Plan plan = testing_cuda::plan_of(c);
  const auto first = all_operands(c, 1), second = all_operands(c, 2);
  const OnDevice there(first), then(second);
  CudaExecutor executor(plan, {});
  for (int run = 0; run < 50; ++run) executor.start(run % 2 == 0 ? there.operands : then.operands);
  executor.finish();
  const auto expected = testing_cuda::reference_of(plan, second);
  for (int r = 0; r < c.ranks; ++r) EXPECT_LE(error_of(executor, r, expected[at(r)]), 0.02);
}

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
  try {
    executor.finish();
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::deadline);
    // Rank 3, or those that wait for what rank 3 makes of it.
    const std::regex sentence(R"(rank [301] waited 0\.3 s for full\[\d+\] from rank [230] in step [123] of rank [301] )"
                              R"(\(ring, s = [123]\), tile 3 \[\d+:\d+, 256:512\]: saw 0 of 1 updates)");
    EXPECT_TRUE(std::regex_match(error.what(), sentence)) << error.what();
  }
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
  EXPECT_LE(us, floor * 1.10);
  for (int r = 0; r < c.ranks; ++r) {
    const std::size_t count = num(c.m * c.n / c.ranks);
    const auto a = from_device<std::uint16_t>(at_once.output(r), count);
    EXPECT_EQ(a, from_device<std::uint16_t>(paced.output(r), count)) << "rank " << r;
  }
}

TEST_F(Cuda, RefusesSharedNicsAndOperandsOfOtherRanks) {
  const CudaCase c{"ring", 256, 256, 64, {128, 256}, 2, Route::ring};
  const Plan plan = testing_cuda::plan_of(c);
  Pace pace;
  pace.bytes_per_s = 1e9;
  pace.fabric = Fabric::nic;
  EXPECT_EQ(refusal([&] { CudaExecutor(plan, {.pace = pace}); }),
            "links of a GPU's ranks are paced one by one; leave out \",nic\"");
  CudaExecutor executor(plan, {});
  EXPECT_EQ(refusal([&] { executor.start({}); }), "operands of 0 ranks are given, but the plan has 2");
  const std::vector<Counts> counts(3);
  EXPECT_EQ(refusal([&] { executor.limit(counts); }), "counts of 3 ranks are given, but the plan has 2");
  const float bias = 0;
  const std::vector<CudaOperands> two(2, {.bias = &bias});
  EXPECT_EQ(refusal([&] { executor.start(two); }),
            "plan \"gemm reduce_scatter ring\" has not a bias, but rank 0 gives one");
}

}  // namespace
}  // namespace weft
