// The lower bound, and the divided loads that reach it. No schedule of the tasks is shorter than
//   ingress  every host that lacks a box takes its bytes in once, by NICs near ranks that want it there;
//   egress   every box leaves the hosts that hold it once ("first"), and its other copies ("rest") are sent by NICs of
//            ranks that hold or want it;
//   uplinks  a box enters every rack that wants it and lacks it once, and leaves a rack that alone holds it once.
// docs/resharding.md has the definition in full and the proof.
#pragma once

#include <vector>

#include "weft/reshard/bound/flow.h"
#include "weft/reshard/schedule/sites.h"

namespace weft {

// Tasks whose boxes can use the same NICs share a demand.
struct Loads {
  double ingress_s = 0, egress_s = 0, uplink_s = 0;
  Division ingress, egress;
  std::vector<Demand> ingress_demands, egress_demands;
  // Indices of demands by SiteTable::id; -1 where a task has none.
  std::vector<int> first, rest;
  std::vector<std::vector<int>> entry;  // per wanting site

  double seconds() const;  // the bound
};

std::vector<double> nic_rates(const Network& network);

Loads loads_of(const std::vector<Task>& tasks, const SiteTable& table, const Network& network);

}  // namespace weft
