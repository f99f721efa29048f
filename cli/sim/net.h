// `weft sim net` and `weft sim scale`: plans and steps on a network.
#pragma once

#include <string>
#include <vector>

#include "weft/cluster/topology.h"
#include "weft/study/net/step_request.h"

#include "cli/command.h"

namespace weft::cli::sim {

void add_net(CLI::App* command, Run* chosen);
void add_scale(CLI::App* command, Run* chosen);

struct NetworkFlags {
  std::string network, packet;
  std::vector<std::string> slow_rank, slow_link;
};
void add_network_flags(CLI::App* command, NetworkFlags* flags);
Topology load_network(const NetworkFlags& flags);               // without what is slow
void slow_down(const NetworkFlags& flags, Topology* topology);  // that
Topology network_of(const NetworkFlags& flags);                 // both

void add_step_flags(CLI::App* command, netsim::StepRequest* flags);

}  // namespace weft::cli::sim
