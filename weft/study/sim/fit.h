// How the free parameters were frozen: a search over them on Mega-GPT-2's eight cases alone, so that the other models
// are predictions. `weft sim fit` repeats it; the chip's file has its result, rounded.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/sim/chip/chip.h"
#include "weft/study/sim/summary.h"

namespace weft::sim {

// What a chip is worth, the less the better: squared errors in points against the paper's figures (which are over all
// 16 cases, for it gives none of the eight alone), and heavy penalties where an ordering breaks.
double fit_cost(const SimSummary& seen, Simulator& simulator, const std::vector<SimCase>& cases);

struct FitStep {
  std::string key;  // empty: the start
  double value = 0, cost = 0;
  SimSummary seen;
};
// One parameter after another, in steps of 30, 15 and 7 %, within what is plausible for it. `tell` hears of every gain.
Chip fitted_chip(Chip chip, const std::function<void(const FitStep&)>& tell);

}  // namespace weft::sim
