// A thousand schedules of every space and route on both fabrics, at 2 to 8 ranks.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/seeded_routes.h"

namespace weft::testing {
namespace {

constexpr int kSeeds = 1000;

class EverySeed : public ::testing::TestWithParam<int> {};

TEST_P(EverySeed, CompletesWithTheSameBits) {
  const SeedsSeen seen = run_every_route(GetParam(), kSeeds);
  EXPECT_GT(seen.refusals, seen.cells) << "no trigger ever waited for room";
  fmt::print(
      "{} ranks: {} routes x fabrics, {} seeds each, {} stores and signals permuted, {} times no room on a link\n",
      GetParam(), seen.cells, kSeeds, seen.events, seen.refusals);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EverySeed, ::testing::Range(2, 9));

}  // namespace
}  // namespace weft::testing
