// Which of several ways is the fastest here: a short trial before the rounds, in which they take turns.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "weft/study/clock.h"

namespace weft {

struct Fastest {
  std::size_t index = 0;
  double us = 0;  // its best turn, on the slowest rank
};

// Collective: each candidate runs once to touch its memory and then `turns` times, all in turn. Gives the one whose
// best turn, on the slowest rank, is shortest; all ranks get the same answer. One candidate at least.
Fastest pick_fastest(CommonClock& clock, const std::vector<std::function<void()>>& candidates, int turns = 4);

// Collective: one turn from a common start, as long as it takes on the slowest rank.
std::int64_t time_together_ns(CommonClock& clock, const std::function<void()>& turn);

}  // namespace weft
