// `weft sim net`: plans on a network.
#pragma once

#include "weft/sim/net/run.h"

#include "cli/command.h"

namespace weft::cli::sim {

void add_net(CLI::App* command, Run* chosen);

// The hottest links, as a table.
void print_links(const netsim::NetResult& result, const Topology& topology, int most);

}  // namespace weft::cli::sim
