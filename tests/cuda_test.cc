// Gemms of the CUDA executor on a GPU, against the reference executor; `make test-gpu` runs these tests and those of
// cuda_links_test.cc and cuda_small_test.cc.
#include "tests/cuda_case.h"

namespace weft {
namespace {

using testing_cuda::all_operands;
using testing_cuda::Cuda;
using testing_cuda::CudaCase;
using testing_cuda::error_of;
using testing_cuda::OnDevice;
using testing_cuda::Operands;
using testing_cuda::run_case;

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

// Partial sums and outputs of f32, by the kernel that has tiles of 128 columns; sums of x alone to the last bit.
TEST_F(Cuda, SumsOfF32AgreeToo) {
  const auto cases = testing_cuda::wide_cases();
  for (std::size_t i = 0; i < cases.size(); i += num(testing_cuda::times(1, 4))) run_case(cases[i]);
}

// Copies cut by strips and taken in single pairs; sums made for their owners in turn.
TEST_F(Cuda, OtherOrdersAgreeToo) {
  CudaCase gather{"", 384, 264, 584, {128, 256}, 3, Route::direct, WeightLayout::nk, SpaceKind::all_gather};
  gather.gathers = true;
  run_case(gather, {.order = {.gathered_rows = 1, .part_cols = kStripCols}});
  run_case({"direct", 1096, 776, 72, {128, 256}, 3, Route::direct}, {.order = {.sent_cols = 2}});
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
    for (int r = 0; r < c.ranks; ++r)
      EXPECT_LE(error_of(executor, r, expected[at(r)]), 0.02) << c.name << " rank " << r;
    executor.limit({});  // all rows again
    executor.start(there.operands);
    executor.finish();
    expected = testing_cuda::reference_of(plan, operands);
    for (int r = 0; r < c.ranks; ++r)
      EXPECT_LE(error_of(executor, r, expected[at(r)]), 0.02) << c.name << " rank " << r;
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
  for (int run = 0; run < testing_cuda::times(50, 8); ++run)
    executor.start(run % 2 == 0 ? there.operands : then.operands);
  executor.finish();
  const auto expected = testing_cuda::reference_of(plan, second);
  for (int r = 0; r < c.ranks; ++r) EXPECT_LE(error_of(executor, r, expected[at(r)]), 0.02);
}

}  // namespace
}  // namespace weft
