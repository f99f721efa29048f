// verify() proves the five promises of a plan, for any number of consecutive runs and any timing:
//   1. every element owed gets each contribution exactly once
//   2. no timing deadlocks it
//   3. no two unordered writers, no read before its write
//   4. it runs again back to back with no global barrier, and outputs stay readable until the next run opens them
//   5. the order of every sum is fixed (and is the order owed, unless the plan says sum = any)
// docs/plan.md states the argument. Cost: one pass over the actions of all ranks, not over their tiles, as long as
// tiles are waited for and signalled alike; otherwise the plan is written out tile by tile first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/plan/plan.h"

namespace weft {

struct ActionOf {
  std::int32_t rank = 0, action = 0;  // of the rank's program
};

struct Verdict {
  std::vector<std::string> problems;  // empty: proved. Each names rank, step or trigger, and counter or box
  std::int64_t actions = 0;           // of all ranks
  std::int64_t tiles = 0;
  bool by_tile = false;  // the proof had to look at single tiles
  double budget = 0;     // what the proof took, of the usual budget (budget.h): work or memory, whichever is more
  // Of a plan that is proved: the outputs that no rank writes or reads on another, as indices of its buffers. Nobody
  // else knows where they lie, so a run may put them into the caller's memory.
  std::vector<int> own_outputs;
  // On request (VerifyOptions::lane_order), of a plan that is proved: the actions whose lanes may have to run one by
  // one, a step's as they are listed and a trigger's as each becomes ready. Of all others a plan ends, and is as safe,
  // in whatever order an executor takes their lanes (free_lanes.cc).
  std::vector<ActionOf> one_by_one = {};

  bool ok() const { return problems.empty(); }
};

struct VerifyOptions {
  double budget = 1;        // times the usual one (budget.h): a plan that cannot be proved within it is refused
  bool lane_order = false;  // find out whose lanes may change places, too
};

// Throws bad_input where a plan cannot be expanded, or not within its budget.
Verdict verify(const Plan& plan, const VerifyOptions& options = {});

// Throws bad_input "plan "x" is not runnable: ..." with the first problem; returns the verdict where there is none.
Verdict require_runnable(const Plan& plan, const VerifyOptions& options = {});

}  // namespace weft
