// Perplexity over blocks dropped, as a picture: a whole SVG.
#pragma once

#include <string>

#include "weft/llm/spd/analysis.h"

namespace weft {

std::string drop_curve_svg(const AnalysisOptions& asked, int ranks, const Analysis& found);

}  // namespace weft
