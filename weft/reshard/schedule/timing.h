// When jobs run. In order, each alone on its NICs, as the unit-task model has it; or sharing NICs from 0 to the end.
#pragma once

#include <vector>

#include "weft/reshard/schedule/resources.h"
#include "weft/reshard/schedule/slices.h"

namespace weft {

// Every job as soon as all its NICs are done with those before it, and the uplinks have room. Gives the end of the
// last.
double run_in_order(std::vector<Job>& jobs, const Resources& resources);

// Whenever a NIC falls free, the first jobs in the order given that can run at once do. `order` names each job once.
double run_when_free(std::vector<Job>& jobs, const std::vector<int>& order, const Resources& resources);

// The shortest of run_when_free under several orders: as listed, senders staggered over receivers and, where jobs are
// not very many, longest first, busiest NIC first, and some at random from the seed. Stops early at `enough`. Leaves
// the jobs with the times of the best.
double run_one_at_a_time(std::vector<Job>& jobs, const Resources& resources, double enough, std::uint64_t seed);

// All jobs at once, each at an even rate, as long as the busiest resource needs. No schedule of these jobs is shorter.
// The jobs are sorted by when they would begin one at a time: the order in which to send.
double run_together(std::vector<Job>& jobs, const Resources& resources);

}  // namespace weft
