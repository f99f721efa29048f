// A plan for people: one page, however many tiles or ranks it is for, because rules are printed and not what
// they expand to.
#pragma once

#include <string>

#include "weft/plan/plan.h"

namespace weft {

// Throws bad_input where the plan cannot be expanded for rank 0.
std::string print(const Plan& plan);

}  // namespace weft
