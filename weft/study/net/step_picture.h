// The picture of `weft sim net WORKLOAD|TRACE`: operators of a step, a whole SVG.
#pragma once

#include <string>

#include "weft/sim/step/run.h"

namespace weft::netsim {

// The operators that take longest, stacked: computing, communication exposed and hidden; means over ranks.
std::string operators_svg(const StepResult& result, const std::string& name);

}  // namespace weft::netsim
