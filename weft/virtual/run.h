// Ranks on virtual hosts: mpirun runs on the first host, and whatever it starts there and elsewhere ends with it.
#pragma once

#include <string>
#include <vector>

#include "weft/virtual/hosts.h"

namespace weft::virtual_hosts {

struct RunEnd {
  int code = 1;  // 128 + signal where one ended it
  bool interrupted = false;
};

// Starts this program again as `cluster enter`, with mpirun's words (mpirun.h) and these variables (NAME=VALUE), and
// waits. SIGINT is left to the terminal, which gives it to mpirun too; SIGTERM is passed on. What is still there 3 s
// later, or at a second signal, is killed. Throws io where this program cannot be started again.
RunEnd run_mpirun(const VirtualHosts& all, const std::vector<std::string>& mpirun, std::vector<std::string> variables);

}  // namespace weft::virtual_hosts
