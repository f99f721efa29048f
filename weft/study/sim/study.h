// Studies around the paper's comparison: plain T3 as a band over switch cost and grant, reduce-scatter alone over
// sizes, and what each free parameter is worth.
#pragma once

#include <string>
#include <vector>

#include "weft/study/sim/summary.h"

namespace weft::sim {

// Geomean and max of plain T3 over the 16 cases for each switch cost (rows) and grant (columns).
struct T3Band {
  std::vector<double> switch_ns, grant_bytes;
  std::vector<Spread> cells;  // row by row
  Spread fifo;
  double low = 0, high = 0;  // of the geomeans
};
T3Band t3_band(const Chip& chip);

struct ScatterAlone {
  std::int64_t bytes = 0;
  int devices = 0;
  double bound_us = 0;                            // (N - 1) chunks at the link's rate and as many latencies
  double steps_us = 0, tiles_us = 0, nmc_us = 0;  // step by step; tile by tile, as the plan has it; near-memory updates
};
std::vector<ScatterAlone> scatter_alone(const Chip& chip);

// The headline figures with one parameter 20 % lower and 20 % higher.
struct Sensitivity {
  std::string key;
  bool free = false;
  double value = 0;
  SimSummary lower, higher;
};
std::vector<Sensitivity> sensitivities(const Chip& chip);

}  // namespace weft::sim
