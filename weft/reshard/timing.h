// When jobs run. In order, each alone on its NICs, as the unit-task model has it; or sharing NICs from 0 to the end.
#pragma once

#include <vector>

#include "weft/reshard/pieces.h"
#include "weft/reshard/resources.h"

namespace weft {

// Every job as soon as all its NICs are done with those before it, and the uplinks have room. Gives the end of the last.
double run_in_order(std::vector<Job>& jobs, const Resources& resources);

// All jobs at once, each at an even rate, as long as the busiest resource needs. No schedule of these jobs is shorter.
double run_together(std::vector<Job>& jobs, const Resources& resources);

}  // namespace weft
