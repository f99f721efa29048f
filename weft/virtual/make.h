// Makes a set of virtual hosts: all of it or nothing.
#pragma once

#include <functional>

#include "weft/virtual/hosts.h"

namespace weft::virtual_hosts {

// Network, links and quotas of the hosts, then `finish`, which may measure and write beside them, then the set's file.
// Takes down what it has made where a step throws or `interrupted` says so, and throws io with the reason. The caller
// holds the lock (lock.h).
void make_virtual_hosts(const VirtualHosts& all, bool (*interrupted)(), const std::function<void()>& finish = {});

}  // namespace weft::virtual_hosts
