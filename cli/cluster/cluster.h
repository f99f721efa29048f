// The parts of `weft cluster`, one file each: they add themselves to the command as commands do to the program.
#pragma once

#include <string>

#include "weft/virtual/cluster.h"

#include "cli/command.h"

namespace weft::cli {

void add_cluster_up(CLI::App& cluster, Run* run);
void add_cluster_run(CLI::App& cluster, Run* run);
void add_cluster_list(CLI::App& cluster, Run* run);
void add_cluster_down(CLI::App& cluster, Run* run);
void add_cluster_enter(CLI::App& cluster, Run* run);  // for `run` and its agent; not in the help

inline constexpr const char* kDefaultCluster = "default";
void add_name_flag(CLI::App& command, std::string* name);

std::string hosts_table(const VirtualCluster& cluster);  // for people: a line a host
std::string model_path(const std::string& cluster);      // the cluster as estimates see it, a rank a host

}  // namespace weft::cli
