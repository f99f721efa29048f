#include "weft/exec/cuda/failure.h"

#include <gtest/gtest.h>

#include "weft/exec/cuda/plans_test.h"

namespace weft {
namespace {

using testing_cuda::CudaCase;

TEST(DeviceFailure, BecomesASentenceWithRankPeerTileSeenAndExpected) {
  const Plan plan = testing_cuda::plan_of(CudaCase{"ring", 1024, 512, 16, {128, 256}, 4, Route::ring});
  const Expander expander(plan);
  const DevicePlan device = device_plan(plan, expander);
  DeviceFailure failure;
  failure.rank = 3;
  failure.waited_ns = 10'000'000'000;
  failure.seen = failure.started = 7;
  const auto& lanes = device.tables[3].lanes;
  while (lanes[at(failure.index)].action != 1 || lanes[at(failure.index)].lane != 3) ++failure.index;
  EXPECT_EQ(describe(plan, expander, device, failure),
            "rank 3 waited 10.0 s for full[3] from rank 2 in step 1 of rank 3 (ring, s = 1), tile 3 [384:512, "
            "256:512]: saw 0 of 1 updates");
  failure.trigger = 1, failure.index = 0, failure.seen = 18;
  EXPECT_EQ(describe(plan, expander, device, failure),
            "rank 3 waited 10.0 s for used[0] from rank 3 in trigger 0 of rank 3 (credit, s = 0): saw 11 of 12 "
            "updates");
}

}  // namespace
}  // namespace weft
