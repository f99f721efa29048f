// The pictures of `weft sim`, each a whole SVG.
#pragma once

#include <string>

#include "weft/study/sim/beyond.h"
#include "weft/study/sim/study.h"

namespace weft::sim {

std::string speedups_svg(Simulator& simulator);  // the paper's comparison
std::string traffic_svg(Simulator& simulator);   // DRAM bytes by source, before and after
std::string over_time_svg(Simulator& simulator, const SimCase& one, Config config);  // traffic of a fused run
std::string band_svg(const T3Band& band);                            // plain T3 over switch cost and grant
std::string sweep_svg(const Sweep& sweep, const std::string& chip);  // where what pays

}  // namespace weft::sim
