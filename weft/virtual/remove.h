// Takes a set of virtual hosts down, whatever state it is in: from what the kernel has under its name, not from any
// file.
#pragma once

#include <string>

namespace weft::virtual_hosts {

struct Removed {
  int namespaces = 0, quotas = 0, processes = 0;
  bool anything = false;  // a lone folder too
};

// Ends every process on the hosts, then removes namespaces (and with them links and shaping), cgroups and the
// folder. Does nothing where there is nothing. Throws io, naming it, where something will not go within 5 s.
Removed remove_virtual_hosts(const std::string& name);

}  // namespace weft::virtual_hosts
