// Random small plans to mutate: every builder and route, copy and gemm, 2 to 6 ranks, shapes that leave
// ragged and empty tiles. Small on purpose: a plan of a few dozen lanes can be run under thousands of
// timings.
#pragma once

#include <random>

#include "weft/plan/plan.h"

namespace weft::mutants {

using Random = std::mt19937_64;

inline std::int64_t between(Random& random, std::int64_t low, std::int64_t high) {  // both ends included
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}
inline bool one_in(Random& random, std::int64_t chances) { return between(random, 1, chances) == 1; }

inline constexpr int kBuilders = 17;

// A plan of builder `which` (0 .. kBuilders - 1), in one of its forms: by rule, written out, written out by
// lane.
Plan random_plan(Random& random, int which);

}  // namespace weft::mutants
