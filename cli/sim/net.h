// `weft sim net` and `weft sim scale`: plans and steps on a network.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "weft/sim/net/run.h"

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

// The hottest links, for a machine and as a table.
nlohmann::ordered_json links_json(const netsim::NetResult& result, const Topology& topology, int most);
void print_links(const netsim::NetResult& result, const Topology& topology, int most);

}  // namespace weft::cli::sim
