// The planner behind Choice::ours: the divided loads first, then whatever else might be shorter or simpler.
#pragma once

#include <string>

#include "weft/reshard/bound/bound.h"
#include "weft/reshard/schedule/choose.h"

namespace weft {

struct Attempt {
  std::vector<Job> jobs;  // with their times
  double makespan_s = 0;
  std::string why;
};

// Never longer than naive, balance, dfs or greedy with the same options, except where tasks are more than
// kMostTasksOfAll: there dfs and greedy are not asked.
inline constexpr int kMostTasksOfAll = 2048;
Attempt meet_bound(const TaskSet& set, const Loads& loads, const ScheduleOptions& options);

}  // namespace weft
