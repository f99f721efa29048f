// A task as the network sees it: the hosts where its box is and the hosts that lack it, and through which NICs it can
// leave or enter each. Inside a host moves are free, so this is all that planners look at. Many tasks have the same
// senders and receivers; they share one Sites.
#pragma once

#include <algorithm>
#include <vector>

#include "weft/base/index.h"
#include "weft/cluster/network.h"
#include "weft/reshard/reshard.h"

namespace weft {

// A NIC, and the rank near it that sends or receives there.
struct Door {
  int nic = 0, rank = 0;
  friend bool operator==(const Door&, const Door&) = default;
};

struct Site {
  int host = 0;
  // One per NIC, by NIC. Where the box is: ranks that hold it, else ranks that want it, which get it inside the host.
  // Where it is not: ranks that want it.
  std::vector<Door> doors;
  std::vector<int> holders;    // ranks that hold it, ascending; none where the host lacks it
  std::vector<int> receivers;  // ranks that want it, ascending

  bool holds(int rank) const { return std::binary_search(holders.begin(), holders.end(), rank); }
};

struct Sites {
  std::vector<Site> holding;  // by host
  std::vector<Site> wanting;  // hosts that lack the box and have ranks that want it, by host
  std::vector<Door> senders;  // doors of `holding` whose rank holds the box
  std::vector<int> exits;     // NICs of the doors of `holding`, ascending
  std::vector<int> relays;    // NICs of all doors, ascending
};

// Throws bad_input where a task names a rank that the network does not have.
class SiteTable {
 public:
  SiteTable(const std::vector<Task>& tasks, const Network& network);
  const Sites& of(int task) const { return sites_[at(id_[at(task)])]; }
  int id(int task) const { return id_[at(task)]; }  // equal where the Sites are
  int num_sites() const { return int_size(sites_); }

 private:
  std::vector<int> id_;
  std::vector<Sites> sites_;
};

}  // namespace weft
