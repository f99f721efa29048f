// What a rank sleeps on. Every rank has one Bell, in memory that all ranks share; whoever raises one of the
// rank's counters rings it, if anyone is asleep there.
//
// The signal protocol:
//   signaller                                     sleeper
//   counter.fetch_add(n, seq_cst)          (a)    sleepers.fetch_add(1, seq_cst)          (c)
//   ring_if_asleep: load sleepers, seq_cst (b)    load rings, acquire                     (d)
//     if not 0: rings.fetch_add, release          ready(): load counter, seq_cst          (e)
//               futex_wake                        futex_wait(rings == value of d)
// No wake-up is lost. a, b, c and e are seq_cst, so they have one order that all agree on: if b misses c,
// then a stands before e and ready() sees the signal. If b sees c, `rings` grows: a sleeper whose d came
// before that finds rings changed and the kernel refuses to sleep (or wakes it); a sleeper whose d came after
// acquired the release, so its e sees a. Hence the one duty of the caller: `ready` loads with seq_cst (the
// same instruction as acquire on x86-64 and arm64). Breaking it costs a late wake-up, never a wrong one:
// sleeps are bounded.
//
// A quiet signal leaves the fence to the sleeper. Steps a to b order a store before a load, which costs the signaller a
// full fence: it waits until all it stored, a whole tile perhaps, has left its core. Where every rank has agreed to it
// (prepare_quiet_signals), a is a plain store, b a plain load, and the sleeper, between c and d, makes the kernel put a
// fence on every core that runs a rank (membarrier, 1 to 10 us). A signaller whose b came before that fence has its a
// out by then, so e sees it; one whose b comes after it sees c.
//
// std::atomic::wait is no substitute: it waits on a private futex, which never wakes another process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <type_traits>

namespace weft {

struct alignas(64) Bell {
  std::atomic<std::uint32_t> rings{0};     // the futex word
  std::atomic<std::uint32_t> sleepers{0};  // threads of the rank that sleep, or are about to
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free && sizeof(Bell) == 64);

// Wakes every sleeper, and keeps those from sleeping who have registered but do not sleep yet.
void ring(Bell& bell);

// The second half of a signal, after the counter has grown. One load when nobody sleeps.
inline void ring_if_asleep(Bell& bell) {
  if (bell.sleepers.load(std::memory_order_seq_cst) != 0) ring(bell);
}

// Whether this process can take part in quiet signals; asks the kernel once. From the first use_quiet_signals() on,
// its sleepers pay for the fence.
bool prepare_quiet_signals();
void use_quiet_signals();

// The second half of a quiet signal.
inline void ring_if_asleep_quietly(Bell& bell) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (bell.sleepers.load(std::memory_order_relaxed) != 0) ring(bell);
}

namespace detail {

void fence_all_ranks();  // does nothing where no signal is quiet

// Sleeps until the bell is rung, unless it has been since `rings` was read; may return early.
void sleep_on(Bell& bell, std::uint32_t rings, std::chrono::nanoseconds at_most);

struct Registration {
  explicit Registration(Bell& bell) : bell(bell) { bell.sleepers.fetch_add(1, std::memory_order_seq_cst); }
  ~Registration() { bell.sleepers.fetch_sub(1, std::memory_order_relaxed); }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  Bell& bell;
};

}  // namespace detail

// Sleeps once, for at most at_most(), asked after ready(), unless ready() is true already; returns what ready() said
// last. A return of false before the time is over is normal: the bell rang for something else.
template <class Ready, class AtMost>
requires std::is_invocable_v<AtMost>
bool sleep_unless(Bell& bell, Ready&& ready, AtMost&& at_most) {
  const detail::Registration registered(bell);
  detail::fence_all_ranks();
  const std::uint32_t rings = bell.rings.load(std::memory_order_acquire);
  if (ready()) return true;
  detail::sleep_on(bell, rings, at_most());
  return ready();
}

template <class Ready>
bool sleep_unless(Bell& bell, Ready&& ready, std::chrono::nanoseconds at_most) {
  return sleep_unless(bell, ready, [=] { return at_most; });
}

}  // namespace weft
