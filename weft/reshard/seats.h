// Which rank of a world plays which rank of a reshard. A reshard counts ranks host by host; a paced or real world has
// hosts of its own, each with at least as many ranks: those beyond what a host needs hold nothing and only take part in
// starting.
#pragma once

#include <vector>

#include "weft/cluster/network.h"
#include "weft/reshard/reshard.h"

namespace weft {

// Ranks on each host of a network.
std::vector<int> ranks_on_hosts(const Network& network);

// A world that seats a network has hosts that are blocks of this many ranks: as many as its largest host has.
int seats_per_host(const Network& network);

struct Seated {
  Reshard reshard;
  Network network;
};
// The same reshard on the ranks of a world whose rank r is on host_of[r]: host h of the network takes the first ranks
// of host h there. Throws bad_input where the world has other hosts than the network.
Seated seated(const Reshard& reshard, const Network& network, const std::vector<int>& host_of);

}  // namespace weft
