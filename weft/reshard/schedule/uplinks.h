// How full the uplinks of racks are over time. Unlike a NIC an uplink carries several jobs at once, as many as its rate
// has room for.
#pragma once

#include <map>
#include <vector>

#include "weft/reshard/schedule/resources.h"

namespace weft {

class Uplinks {
 public:
  explicit Uplinks(const Resources& resources) : resources_(resources) {}

  // The first time from `begin` on at which every uplink of the job has room for all of it; it is taken.
  double reserve(const Job& job, double begin);
  // The same without taking it.
  double first_room(const Job& job, double begin);

 private:
  // The rate in use from each time on. Empty: none.
  using Profile = std::map<double, double>;
  double first_fit(const Profile& profile, double begin, double seconds, double room) const;

  const Resources& resources_;
  std::map<int, Profile> profiles_;  // by resource
};

}  // namespace weft
