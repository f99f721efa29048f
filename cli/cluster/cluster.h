// The parts of `weft cluster`, one file each: they add themselves to the command as commands do to the program.
#pragma once

#include <string>

#include "weft/virtual/hosts.h"

#include "cli/command.h"

namespace weft::cli::cluster {

using namespace virtual_hosts;

void add_cluster_up(CLI::App& cluster, Run* run);
void add_cluster_run(CLI::App& cluster, Run* run);
void add_cluster_list(CLI::App& cluster, Run* run);
void add_cluster_down(CLI::App& cluster, Run* run);
void add_cluster_enter(CLI::App& cluster, Run* run);  // for `run` and its agent; not in the help

inline constexpr const char* kDefaultCluster = "default";
void add_name_flag(CLI::App& command, std::string* name);

std::string hosts_table(const VirtualHosts& all);  // for people: one line per host
std::string model_path(const std::string& set);    // the hosts as estimates see them, one rank per host

}  // namespace weft::cli::cluster
