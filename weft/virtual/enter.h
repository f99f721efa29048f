// Runs a program on a virtual host, as nearly as on a machine of its own: in the host's network namespace and cgroup,
// on its core, under its name, with process numbers, System V memory and /dev/shm that other hosts do not see. So
// neither MPI nor anything else can carry bytes between hosts but through their links; and when the program ends,
// whatever it started on the host ends with it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weft::virtual_hosts {

struct Entry {
  std::string host;
  std::optional<int> core;
};

// Returns the program's exit code, 128 + signal where one ended it. The program dies with this process, and this
// process with its parent; SIGTERM is passed on, SIGINT is left to the terminal, which gives it to all of them. Changes
// the namespaces of this process: it can do nothing else afterwards. Throws io.
int run_on_host(const Entry& entry, const std::vector<std::string>& program);

}  // namespace weft::virtual_hosts
