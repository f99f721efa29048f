#include "weft/base/os/fd.h"

#include <unistd.h>

namespace weft {

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace weft
