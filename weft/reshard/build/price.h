// What a schedule takes with everything that its makespan leaves out: latency, the filling of a chain, and the time
// that ranks spend on messages. The schedule says when a chunk is on the network; behind that, a hop is there one tile,
// one latency and one message later than the hop before it, and a rank handles its messages one after another. Where
// ranks share cores, what all of them do for the hops of a chunk comes on top once, and all that they do bounds the
// whole from below.
#pragma once

#include "weft/reshard/build/nodes.h"

namespace weft::resharding {

double price(const Schedule& schedule, const std::vector<Task>& tasks, const Reshard& reshard, const Network& network,
             const Tiling& tiling);

}  // namespace weft::resharding
