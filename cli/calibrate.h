// Measures what the cost model needs to know of this machine: rates that `auto` and the simulator use.
#pragma once

#include "weft/cluster/cluster.h"

namespace weft::cli {

// About two seconds. One host with that many ranks; every rate is the median of its rounds, on one core. The network is
// the default cluster's: nothing here can measure it.
Cluster calibrate(int ranks);

}  // namespace weft::cli
