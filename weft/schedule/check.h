// The proof of a schedule: every micro-batch runs once through every position, forward and backward; what a stage does
// with a micro-batch comes in the right order; and no stage waits for one that waits for it, whatever anything takes.
// A stage waits only for work of other stages that has ended, and ended work stays ended. So if one order of events
// completes, every order does, and one abstract run decides.
#pragma once

#include <string>
#include <vector>

#include "weft/schedule/schedule.h"

namespace weft::pipeline {

struct Verdict {
  std::vector<std::string> problems;  // one sentence each, the first few
  // Per stage, where there are no problems: the most micro-batches at once whose forward has begun and whose backward
  // has not ended. They are what memory holds: activations, or with recomputation inputs. A chunk's is 1 / chunks.
  std::vector<double> peak_activations;
  // Per stage: the most at once that are recomputed and not yet done with; 0 without recomputation.
  std::vector<double> peak_recomputed;

  bool ok() const { return problems.empty(); }
  double peak() const;  // of all stages
};

// Throws bad_input where a size is out of range (check_sizes); everything else is a problem of the verdict.
Verdict check(const Schedule& schedule);

}  // namespace weft::pipeline
