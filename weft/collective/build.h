// From a producer and an output space to a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/plan/plan.h"
#include "weft/plan/space.h"

namespace weft {

// Of a rank's inbox; beyond, one_shot is no candidate: its inbox holds every rank's whole output.
inline constexpr std::int64_t kMaxOneShotBytes = 256'000'000;

// Flat routes a space can take, best known first: those that know nothing of hosts.
std::vector<Route> routes(SpaceKind kind);
// All that it can take on that cluster: two_level too, where its group fills several hosts with several ranks each.
std::vector<Route> routes(const Space& space, const Cluster& cluster);
// The same of a gather on the consumer's side.
std::vector<Route> gather_routes();
std::vector<Route> gather_routes(const Space& space, const Cluster& cluster);

// The plan of one group of the space's axis. Route `auto` prices every route on the cluster and says why it chose.
// Throws bad_input where the producer and the space do not fit.
Plan build(const Producer& producer, const Space& space, const Cluster& cluster = default_cluster());

// The least distance of rows, in elements of that type, with which each owner of a window's sums has whole pages
// (world/window.h).
std::int64_t window_ld(std::int64_t num_rows, std::int64_t num_cols, int num_ranks, Dtype dtype = Dtype::f32);

// The consumer's side: every rank's m rows of x are gathered, and the tiles of the gemm wait for the rows they read.
Plan build(const Space& gather, const Producer& producer, const Cluster& cluster = default_cluster());

}  // namespace weft
