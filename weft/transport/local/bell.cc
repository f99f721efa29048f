#include "weft/transport/local/bell.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

#include <climits>

namespace weft {
namespace {

// The operations without FUTEX_PRIVATE_FLAG: sleepers may be in other processes, at other addresses.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

long membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0); }

std::atomic<bool> quiet{false};

}  // namespace

bool prepare_quiet_signals() {
  static const bool able = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
  return able;
}

void use_quiet_signals() { quiet.store(true, std::memory_order_seq_cst); }

void detail::fence_all_ranks() {
  if (quiet.load(std::memory_order_relaxed)) membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void ring(Bell& bell) {
  bell.rings.fetch_add(1, std::memory_order_release);
  futex(bell.rings, FUTEX_WAKE, INT_MAX, nullptr);
}

void detail::sleep_on(Bell& bell, std::uint32_t rings, std::chrono::nanoseconds at_most) {
  const auto ns = at_most.count() > 0 ? at_most.count() : 0;
  const timespec timeout{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  // Every outcome (woken, word changed, timed out, interrupted) means the same to the caller: look again.
  futex(bell.rings, FUTEX_WAIT, rings, &timeout);
}

}  // namespace weft
