// A schedule made by doing: a clock runs, and a stage that is free takes what is best among the work that is there. One
// of the places where a search begins. Backward comes before forward, and the weights' part fills gaps.
#pragma once

#include <vector>

#include "weft/schedule/costs.h"
#include "weft/schedule/schedule.h"

namespace weft::pipeline {

struct DispatchOptions {
  int micro_batches = 1;
  int memory = 1;          // activations that a stage may hold
  std::vector<int> ahead;  // per stage, at least 1: the most forwards whose backward_input is not done
  // A gap is filled with a weights' part where it lasts at least this share of it; 0: whenever nothing else can begin.
  double fill = 0.5;
};

// One chunk per stage, backward split. Never stops halfway: the oldest micro-batch that is not done can always move.
Schedule dispatch(const Costs& costs, const DispatchOptions& options);

}  // namespace weft::pipeline
