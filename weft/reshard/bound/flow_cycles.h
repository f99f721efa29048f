// Makes a division a vertex: no cycle of demands and bins joined by positive shares, so that few demands are divided.
#pragma once

#include <vector>

#include "weft/reshard/bound/flow.h"

namespace weft {

// What every bin serves stays as it is. Quadratic in the worst case; very large divisions are left as they are.
void cancel_cycles(const std::vector<Demand>& demands, std::size_t num_bins, std::vector<std::vector<double>>& share);

}  // namespace weft
