// The mpirun command that starts ranks on virtual hosts: the flags without which the numbers would be false.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/virtual/hosts.h"

namespace weft::virtual_hosts {

struct MpirunOptions {
  int ranks_per_host = 1;
  int num_hosts = 1;                                     // the first ones of the set
  std::vector<std::pair<std::string, std::string>> mca;  // the user's, after ours: the last one counts
  std::vector<std::string> passed;                       // variables that ranks shall see: names
  std::vector<std::string> program;
};

// mpirun and its words. It runs on the first host and reaches the others through the file agent_path().
std::vector<std::string> mpirun_words(const VirtualHosts& all, const MpirunOptions& options);

// Stands in for ssh: takes a host and a command, and runs the command there through `weft cluster enter`.
std::string agent_path(const std::string& set);
void write_agent(const VirtualHosts& all);

// What mpirun is given of this process's environment, and which of it ranks on other hosts see too.
bool reaches_mpirun(std::string_view variable);
bool reaches_ranks(std::string_view variable);

}  // namespace weft::virtual_hosts
