// What a composed plan owes: promises about copies and sums of the joined buffer, told in terms of what the
// first plan owes there.
#pragma once

#include <vector>

#include "weft/plan/plan.h"

namespace weft {

// `owed`: promises of the second plan whose contributions are the joined buffer of the ranks, in the names of
// `plan`. Throws bad_input where first's promises do not cover them or the result would be a sum of sums.
std::vector<Owed> owed_through(const Plan& plan, const Plan& first, int joined, const std::vector<Owed>& owed);

}  // namespace weft
