// Measures what the cost model needs to know of this machine: rates that `auto` and the simulator use.
#pragma once

#include "weft/cluster/cluster.h"

namespace weft {

// Two to four seconds. One host with that many ranks. Two ranks run small ops at once, one core each, and every rate is
// solved from the medians of their times by the very terms that the estimate adds up (weft/plan/price/cost.h). The
// network is the default cluster's: nothing here can measure it.
Cluster calibrate(int ranks);

}  // namespace weft
