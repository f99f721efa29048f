#include "weft/transport/local/process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/error.h"

namespace weft {

// Raw calls: <sys/pidfd.h> of glibc 2.36 declares its functions without C linkage, so C++ cannot link them.
Fd open_process(pid_t pid) {
  Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process) fail(Code::io, "cannot watch process {}: {}; Linux 5.3 is needed", pid, std::strerror(errno));
  return process;
}

void signal_process(const Fd& process, int signal) {
  syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
}

}  // namespace weft
