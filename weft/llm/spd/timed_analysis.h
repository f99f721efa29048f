// An analysis and the times around it: the modes are timed before the search, which chooses by them, and the choice
// after it.
#pragma once

#include <optional>
#include <vector>

#include "weft/cluster/cluster.h"
#include "weft/llm/spd/analysis.h"

namespace weft {

struct TimedAnalysisOptions {
  AnalysisOptions analysis;
  ModeTimesOptions times;
  Modes modes;                 // to choose among beside sync
  int ranks = 1, threads = 1;  // local ranks, and threads of each
  std::optional<Link> link;    // what local ranks are paced to while they are timed
};

struct TimedAnalysis : Analysis {
  std::vector<ModeTime> times;      // of every mode; empty without a bound
  double sync_s = 0, chosen_s = 0;  // a forward in sync, and as chosen
};

// `joined`: the ranks there are, which all call this and end with the same. Null: local ones, threads of this process,
// in a world without a link for what is computed and in a paced one for what is timed. Progress has `of` 0 where there
// is nothing to count.
TimedAnalysis analyze_timed(World* joined, const TimedAnalysisOptions& options, const AnalysisInputs& inputs,
                            const EvalProgress& progress = {});

}  // namespace weft
