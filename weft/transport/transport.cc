#include "weft/transport/transport.h"

#include <sched.h>

#include <thread>

#include "weft/base/error.h"

namespace weft {
namespace {

// The cores this process may run on, which taskset or a container can make fewer than the machine has.
int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

Transport::Transport(int rank, int size) : rank_(rank), size_(size), crowded_(size > usable_cores()) {
  if (size < 1 || rank < 0 || rank >= size) bad_input("rank {} of {} ranks does not exist", rank, size);
}

}  // namespace weft
