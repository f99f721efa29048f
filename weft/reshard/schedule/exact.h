// The exact search for few tasks: no schedule that sends every task whole, one at a time on every NIC, is shorter. Over
// (task, sender, order) by branch and bound, with the states that are no better than one seen before left out.
#pragma once

#include "weft/reshard/schedule/choose.h"

namespace weft {

inline constexpr int kMostExactTasks = 8;

struct Exact {
  std::vector<Slice> slices;  // in order
  double makespan_s = 0;
  bool is_proved = false;  // false where the budget ran out, or uplinks bind, which it does not look at
};

Exact exact_search(const TaskSet& set, std::int64_t node_budget);

}  // namespace weft
