#include "weft/virtual/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "weft/base/error.h"

namespace weft::virtual_hosts {

HostsLock::HostsLock() {
  mkdir("/run/weft", 0755);  // or it is there
  file_ = Fd(open("/run/weft/lock", O_CREAT | O_RDWR, 0600));
  if (!file_ || flock(file_.get(), LOCK_EX) != 0)
    fail(Code::io, "cannot lock /run/weft/lock: {}", std::strerror(errno));
}

}  // namespace weft::virtual_hosts
