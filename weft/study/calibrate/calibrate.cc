#include "weft/study/calibrate/calibrate.h"

#include <unistd.h>

#include <algorithm>

#include "weft/study/calibrate/solve.h"

namespace weft {

Cluster calibrate(int ranks) {
  Cluster cluster = default_cluster(std::max(ranks, 1));
  cluster.name = "measured";
  if (const double cache = sysconf(_SC_LEVEL2_CACHE_SIZE); cache > 0)
    cluster.cache_bytes = 2 * cache;  // a rank's own, and as much again of what is shared
  if (const auto cache = static_cast<double>(sysconf(_SC_LEVEL3_CACHE_SIZE)); cache > 0)
    cluster.shared_cache_bytes = std::min(cache / std::max(ranks, 1), 4 * cluster.cache_bytes);  // neighbours share it
  calibrating::solve_rates(calibrating::time_trials(), &cluster);
  return cluster;
}

}  // namespace weft
