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
#include "weft/exec/cuda/small/bag_executor.h"
#include "weft/exec/cuda/small/bags_test.h"
#include "weft/exec/cuda/small/gemv_executor.h"
#include "weft/exec/cuda/window_map.h"

namespace weft {
namespace {

using testing_cuda::CudaCase;
using testing_cuda::gemv_case;
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
double error_of(const std::byte* output, const std::vector<float>& expected) {
  const auto found = from_device<bf16>(output, expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = std::abs(to_float(found[i]) - expected[i]) / (1 + std::abs(expected[i]));
    worst = std::isnan(e) ? INFINITY : std::max(worst, e);
  }
  return worst;
}

double error_of(const CudaExecutor& executor, int rank, const std::vector<float>& expected) {
  return error_of(executor.output(rank), expected);
}

// Three runs with fresh inputs.
void run_case(const CudaCase& c, const CudaOptions& options = {}) {
  const Plan plan = testing_cuda::plan_of(c);
  const Expander expander(plan);
  CudaExecutor executor(plan, options);
  for (const std::uint32_t run : {1, 2, 3}) {
    const auto operands = all_operands(c, run);
    const auto expected = testing_cuda::reference_of(plan, operands);
    const OnDevice there(operands);
    executor.start(there.operands);
    executor.finish();
    for (int r = 0; r < c.ranks; ++r) {
      ASSERT_LE(error_of(executor, r, expected[at(r)]), 0.02) << c.name << " rank " << r << " run " << run;
      const auto counters = executor.counters(r);
      for (const std::uint32_t i : testing_cuda::signalled(executor.tables(), r)) {
        if (options.link == CudaLink::pcie) break;  // some of them have become crossings
        ASSERT_EQ(counters[i], run * expander.counter_total(static_cast<int>(i), r)) << c.name << " counter " << i;
      }
      for (const Crossing& crossing : executor.tables().crossings) {
        if (crossing.to != r) continue;
        ASSERT_EQ(counters[crossing.arrived], run) << c.name;
      }
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
  for (const testing_cuda::CountedCase& counted : testing_cuda::counted_cases()) {
    const CudaCase& c = counted.plan;
    const Plan plan = testing_cuda::plan_of(c);
    const std::vector<Counts> all = counted.counts();
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
    for (int run = 0; run < 20; ++run) crossing.start(run % 2 == 0 ? there.operands : then.operands);
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
  try {
    executor.finish();
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::deadline);
    const std::regex sentence(R"(rank 2 waited 0\.3 s to send crossing \d+ to rank 3, of step 0 of rank 2 )"
                              R"(\(ring, s = 0\): saw 3 of 4 tiles)");
    EXPECT_TRUE(std::regex_match(error.what(), sentence)) << error.what();
  }
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

// 16 columns per tile: fewer tiles than groups, and several for each; depths that fill no block, one, and several. A
// rank's sum of k products is about sqrt(k) / 3 and is rounded to 2^-9 of that; those of all ranks may cancel.
TEST_F(Cuda, GemvsOfFewRowsAgreeWithTheReference) {
  for (const std::int64_t rows : {1, 3, 4, 8, 16})
    for (const int ranks : {1, 2, 3, 4, 8})
      for (const auto& [n, k] : {std::pair{96, 32}, std::pair{4800, 96}, std::pair{528, 1184}, std::pair{2048, 0}}) {
        if (ranks == 1 && k == 0) continue;
        const CudaCase c = gemv_case(rows, n, k, ranks);
        const Plan plan = testing_cuda::plan_of(c);
        CudaGemv gemv(plan, {});
        for (const std::uint32_t run : {1, 2, 3}) {
          const auto operands = all_operands(c, run);
          const auto expected = testing_cuda::reference_of(plan, operands);
          const OnDevice there(operands);
          gemv.start(there.operands);
          gemv.finish();
          for (int r = 0; r < ranks; ++r)
            ASSERT_LE(error_of(gemv.output(r), expected[at(r)]), 0.02 + 0.002 * std::sqrt(k))
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
    for (int run = 0; run < 50; ++run) gemv.start(run % 2 == 0 ? there.operands : then.operands);
  });
  for (int launch = 0; launch < 20; ++launch) graph.launch();
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
  try {
    gemv.finish();
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    // Who should have written it is found in the tables, which say otherwise here.
    const std::string sentence = "rank 3 waited 0.2 s for tile 5 [0:4, 80:96] of rank ";
    EXPECT_EQ(std::string(error.what()).substr(0, sentence.size()), sentence);
  }
  EXPECT_THROW(gemv.start(there.operands), Error);
}

// One rank's tables and bags on the device, and arrays of pointers to them.
struct BagsOnDevice {
  std::vector<DeviceMemory> memory;
  std::vector<BagOperands> operands;

  explicit BagsOnDevice(const std::vector<testing_cuda::BagInputs>& from) {
    for (const testing_cuda::BagInputs& in : from)
      operands.push_back({kept<float>(in.tables), kept<std::int64_t>(in.indices), kept<std::int64_t>(in.offsets)});
  }

 private:
  template <typename T>
  const T* const* kept(const std::vector<std::vector<T>>& arrays) {
    std::vector<const std::byte*> places;
    for (const auto& one : arrays) {
      memory.push_back(on_device(one));
      places.push_back(memory.back().data());
    }
    memory.push_back(on_device(places));
    return reinterpret_cast<const T* const*>(memory.back().data());
  }
};

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
