// Tasks taken apart by racks, for networks whose uplinks bind: the ranks of a rack that holds a box get it from there;
// the other racks get it together, each part of it from one rack, so that the uplinks of the racks that hold it share
// the load.
#pragma once

#include <vector>

#include "weft/cluster/network.h"
#include "weft/reshard/reshard.h"

namespace weft {

struct RackTasks {
  std::vector<Task> tasks;
  std::vector<int> origin;  // of each: the task it is part of
};

// Only `share` of the tasks, spread evenly, are taken apart; the others stay as they are.
RackTasks rack_tasks(const std::vector<Task>& tasks, const Network& network, double share = 1);

}  // namespace weft
