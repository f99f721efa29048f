// Which rank of the world plays which rank of a reshard. A reshard counts ranks host by host; a paced or real world has hosts of
// its own, each with at least as many ranks: those beyond a host's devices hold nothing and only take part in starting.
#pragma once

#include <vector>

#include "cli/reshard/spec.h"

namespace weft::cli {

// The seats of a paced local world: hosts are blocks of as many ranks as the largest host has devices.
int paced_ranks_per_host(const ReshardSpec& spec);
std::vector<int> paced_hosts(const ReshardSpec& spec);  // of every rank of that world

// The same reshard on the ranks of a world whose rank r is on host_of[r]: host h of the spec takes the first ranks of host h.
// Throws bad_input where the world has other hosts than the spec needs.
ReshardSpec seated(const ReshardSpec& spec, const std::vector<int>& host_of);

}  // namespace weft::cli
