// Processes named by descriptors: a pidfd can be polled for the end of its process, passed to others, and
// never comes to mean another process, as a number can.
#pragma once

#include <sys/types.h>

#include "weft/transport/local/memory.h"

namespace weft {

// Throws io where the kernel has none (before Linux 5.3).
Fd open_process(pid_t pid);

// Nothing happens to a process that has ended.
void signal_process(const Fd& process, int signal);

}  // namespace weft
