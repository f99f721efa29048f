// From the times of the trials to rates: the very terms that the estimate adds up (weft/plan/price/cost.h), solved for
// the rates one after another.
#pragma once

#include "weft/cluster/cluster.h"
#include "weft/study/calibrate/trials.h"

namespace weft::calibrating {

// Fills in the rates of one rank and of the memory between ranks. However noisy the times, every time is above 0 and
// every rate finite and positive: where a trial tells nothing, the default cluster's stays.
void solve_rates(const TrialSeconds& seconds, Cluster* cluster);

}  // namespace weft::calibrating
