#include "weft/study/trial.h"

#include <algorithm>

#include "weft/base/index.h"

namespace weft {

std::int64_t time_together_ns(CommonClock& clock, const std::function<void()>& turn) {
  const std::int64_t start = clock.start_together();
  turn();
  return clock.worst_of_ranks(CommonClock::now_ns() - start);
}

Fastest pick_fastest(CommonClock& clock, const std::vector<std::function<void()>>& candidates, int turns) {
  std::vector<std::int64_t> best(candidates.size(), INT64_MAX);
  for (int turn = 0; turn <= turns; ++turn)
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const std::int64_t ns = time_together_ns(clock, candidates[c]);
      if (turn > 0) best[c] = std::min(best[c], ns);
    }
  const auto least = std::min_element(best.begin(), best.end());
  return {num(least - best.begin()), *least * 1e-3};
}

}  // namespace weft
