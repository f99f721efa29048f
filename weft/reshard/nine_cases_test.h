// The nine many-to-many cases of the literature, and random reshards and networks, for tests of planners.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "weft/reshard/schedule.h"

namespace weft {

struct NineCase {
  int source_hosts, destination_hosts;
  Shape shape;
  std::string source, destination;
  double naive, balance, optimum;  // in whole tensors over one NIC
};

inline std::vector<NineCase> nine_cases() {
  const Shape cube{1024, 1024, 512};
  return {{2, 2, cube, "S0,R,R", "S0,R,R", 0.5, 0.5, 0.5},   {2, 2, cube, "R,R,R", "S0,R,R", 1, 0.5, 0.5},
          {2, 2, cube, "R,S0,R", "S0,R,R", 0.75, 0.75, 0.5}, {2, 2, cube, "R,S01,R", "S01,R,R", 0.9375, 0.9375, 0.5},
          {2, 2, cube, "S1,R,R", "S0,R,R", 1, 0.75, 0.5},    {2, 3, {3072, 1024, 170}, "S0,R,R", "S0,R,R", 1, 1, 0.5},
          {1, 2, cube, "S01,R,R", "R,R,R", 1, 1, 1},         {1, 2, cube, "S01,R,R", "R,R,R", 1, 1, 1},
          {2, 2, cube, "R,S0,R", "R,R,S0", 0.75, 0.75, 0.5}};
}

// A reshard, the network it runs on, and what one whole tensor over one NIC takes.
struct Instance {
  Reshard reshard;
  Network network;
  double unit_s = 1;
};

inline Instance instance_of(const NineCase& c) {
  const Mesh source = hosts_by_devices(c.source_hosts, 4), destination = hosts_by_devices(c.destination_hosts, 4);
  Instance instance;
  instance.reshard = one_tensor(c.shape, Dtype::i32, source, c.source, destination, c.destination);
  instance.network = one_nic_a_host(hosts_side_by_side(source, destination), {1.25e9, 10e-6}, {19e9, 1e-7});
  instance.unit_s = static_cast<double>(whole(c.shape).volume()) * 4 / 1.25e9;
  return instance;
}

}  // namespace weft
