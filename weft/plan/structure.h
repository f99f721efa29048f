// What a plan must be before anything follows its indices: every number that names a buffer, counter, producer or rank
// names one that is there, and sizes are of a kind that arithmetic can hold. Checked once, by the expander; whoever has
// an expander may index without looking.
#pragma once

#include <cstdint>

#include "weft/plan/plan.h"

namespace weft {

inline constexpr int kMaxRanksOfAPlan = 65536;
inline constexpr int kMaxLag = 64, kMaxCopies = 64;
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;  // of one buffer, box or output

// Throws bad_input that names the part, the value and what would do.
void check_structure(const Plan& plan);

}  // namespace weft
