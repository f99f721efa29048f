// From a producer and an output space to a plan.
#pragma once

#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/plan/plan.h"
#include "weft/plan/space.h"

namespace weft {

// Routes a space can take, best known first.
std::vector<Route> routes(SpaceKind kind);
std::vector<Route> gather_routes();  // of a gather on the consumer's side

// The plan of one group of the space's axis. Route `auto` prices every route on the cluster and says why it chose.
// Throws bad_input where the producer and the space do not fit.
Plan build(const Producer& producer, const Space& space, const Cluster& cluster = default_cluster());

// The consumer's side: every rank's m rows of x are gathered, and the tiles of the gemm wait for the rows they read.
Plan build(const Space& gather, const Producer& producer, const Cluster& cluster = default_cluster());

}  // namespace weft
