// Every space and route under many schedules of the fabrics of paced links. One world per case and fabric: a seed then
// costs its runs alone, and thousands of runs follow each other in one world.
#pragma once

#include <cstdint>

namespace weft::testing {

struct SeedsSeen {
  std::int64_t cells = 0;  // case x fabric
  std::int64_t events = 0, refusals = 0;
};

// Fails the test where a seed does not complete, or changes a bit. WEFT_SEED=n runs that one alone.
SeedsSeen run_every_route(int num_ranks, int seeds);

}  // namespace weft::testing
