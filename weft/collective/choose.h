// Chooses the route: each candidate is built and priced on the cluster, the cheapest is kept, and the plan says in one
// sentence what the others would have cost.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/plan/plan.h"

namespace weft {

using Builder = std::function<Plan(const Producer&, const Space&, Route, int ranks_per_host)>;

// The cheapest of the `known` routes; the cluster is the group's.
Plan cheapest(const Producer& producer, const Space& space, const std::vector<Route>& known, const Cluster& cluster,
              const Builder& builder);

// What is not to be seen from a plan's cost, as the end of its reason.
std::string remark(const Space& space, Route route);

bool sums(SpaceKind kind);

}  // namespace weft
