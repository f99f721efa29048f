// A thousand schedules of every space and route on both fabrics at 2 to 4 ranks, two hundred at 5 to 8, which are as
// long again. WEFT_SEEDS=1000 asks for so many of all: some ten minutes on two cores.
#include <algorithm>
#include <cstdlib>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/seeded_routes.h"

namespace weft::testing {
namespace {

int seeds_at(int ranks) {
  if (const char* wanted = std::getenv("WEFT_SEEDS")) return std::max(std::atoi(wanted), 1);
  return ranks <= 4 ? 1000 : 200;
}

class EverySeed : public ::testing::TestWithParam<int> {};

TEST_P(EverySeed, CompletesWithTheSameBits) {
  const SeedsSeen seen = run_every_route(GetParam(), seeds_at(GetParam()));
  EXPECT_GT(seen.refusals, seen.cells) << "no trigger ever waited for room";
  fmt::print(
      "{} ranks: {} routes x fabrics, {} seeds each, {} stores and signals permuted, {} times no room on a link\n",
      GetParam(), seen.cells, seeds_at(GetParam()), seen.events, seen.refusals);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EverySeed, ::testing::Range(2, 9));

}  // namespace
}  // namespace weft::testing
