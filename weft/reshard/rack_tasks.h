// Tasks taken apart by racks, for networks whose uplinks bind: the ranks of a rack that holds a box get it from there; the
// other racks get it together, from any.
#pragma once

#include <vector>

#include "weft/cluster/network.h"
#include "weft/reshard/reshard.h"

namespace weft {

struct RackTasks {
  std::vector<Task> tasks;
  std::vector<int> origin;  // of each: the task it is part of
};

RackTasks rack_tasks(const std::vector<Task>& tasks, const Network& network);

}  // namespace weft
