// One `up` or `down` at a time on a machine: the kernel gives the lock back when its holder dies, and
// the programs it was running then (ip, tc) have ended: they hold it too, so that nothing is made behind a `down`.
#pragma once

#include "weft/base/os/fd.h"

namespace weft::virtual_hosts {

class HostsLock {
 public:
  HostsLock();  // waits for it; throws io where /run/weft cannot be written

 private:
  Fd file_;
};

}  // namespace weft::virtual_hosts
