#include "weft/exec/cuda/window/window_map.h"

#include <map>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/exec/cuda/plans_test.h"

namespace weft {
namespace {

using testing_cuda::CudaCase;

CudaCase window_case(Route route, SpaceKind space) {
  return {"", 1024, 512, 16, {128, 256}, route == Route::local ? 1 : 4, route, WeightLayout::nk, space};
}

std::vector<WindowStretch> stretches(const CudaCase& c, std::int64_t page_bytes) {
  const Plan plan = testing_cuda::plan_of(c);
  return stretches_of(plan, Expander(plan), page_bytes);
}

TEST(WindowMap, EveryByteIsMadeOnceAndKeptOnce) {
  const auto found = stretches(window_case(Route::direct, SpaceKind::all_to_all), 4096);
  ASSERT_EQ(found.size(), 16u);
  std::map<int, std::map<std::int64_t, std::int64_t>> made, kept;
  for (const WindowStretch& s : found) {
    EXPECT_TRUE(made[s.from].insert({s.made, s.bytes}).second);
    EXPECT_TRUE(kept[s.to].insert({s.kept, s.bytes}).second);
    EXPECT_EQ(s.made, s.to * 1024 / 4 * 512 * 2);    // the receiver's rows
    EXPECT_EQ(s.kept, s.from * 1024 / 4 * 512 * 2);  // stacked by sender
  }
  for (auto* all : {&made, &kept})
    for (const auto& [rank, parts] : *all) {
      std::int64_t end = 0;
      for (const auto& [begin, bytes] : parts) {
        EXPECT_EQ(begin, end);
        end = begin + bytes;
      }
      EXPECT_EQ(end, 1024 * 512 * 2);
    }
}

TEST(WindowMap, AKeptProductIsItsOwnOutput) {
  const auto found = stretches(window_case(Route::local, SpaceKind::keep), 4096);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].bytes, 1024 * 512 * 2);
}

TEST(WindowMap, RefusesPartsOfPagesAndPlansThatDoMoreThanStore) {
  EXPECT_EQ(
      refusal([] { stretches(window_case(Route::direct, SpaceKind::all_to_all), 2 << 20); }),
      "256 rows of 512 go from rank 0 to rank 1: 262144 bytes from 262144 on, no whole pages of 2097152; a window "
      "needs those");
  for (const auto& [route, space] :
       {std::pair{Route::ring, SpaceKind::reduce_scatter}, std::pair{Route::staged, SpaceKind::all_to_all},
        std::pair{Route::two_shot, SpaceKind::all_reduce}})
    EXPECT_NE(refusal([&, r = route, s = space] {
                stretches(window_case(r, s), 4096);
              }).find("is more than stores of whole rows"),
              std::string::npos);
}

}  // namespace
}  // namespace weft
