// `weft sim net`: plans on a network.
#pragma once

#include "cli/command.h"

namespace weft::cli::sim {

void add_net(CLI::App* command, Run* chosen);

}  // namespace weft::cli::sim
