// The one waiting loop of all executors and set-up calls: spin for a moment, then sleep on this rank's bell,
// looking now and then whether a peer has failed and letting the caller give up.
#pragma once

#include <sched.h>

#include <chrono>

#include "weft/base/pause.h"
#include "weft/transport/local/bell.h"
#include "weft/transport/transport.h"
#include "weft/transport/wire/wire.h"

namespace weft {

struct Patience {
  // A peer that shows no life for so long has failed.
  std::chrono::nanoseconds silence = std::chrono::seconds(10);
  // No wait is longer, however alive the peers are.
  std::chrono::nanoseconds total = std::chrono::seconds(100);
  // Before sleeping: about what falling asleep and waking cost (the fence of quiet signals 8 us here, a futex 10 to
  // 50). Crowded ranks (ranks > cores) sleep at once, unless they yield.
  std::chrono::nanoseconds spin = std::chrono::microseconds(30);
  // Between two looks the core is offered to others.
  bool yields = false;
};

// WEFT_DEADLINE_S sets silence, and total to ten times as much unless WEFT_WAIT_S sets that; bad_input where
// either is not a positive number of seconds.
Patience patience_from_env();

// The longest a wait sleeps before it looks around.
inline constexpr std::chrono::nanoseconds kSleepSlice = std::chrono::milliseconds(100);

// A thread that looks after the wire by calling progress() now and then, as long as `on`.
class WireAttention {
 public:
  explicit WireAttention(Wire* wire, bool on = true) : wire_(wire) { set(on); }
  ~WireAttention() { set(false); }
  WireAttention(const WireAttention&) = delete;
  WireAttention& operator=(const WireAttention&) = delete;

  void set(bool on) {
    if (wire_ == nullptr || on == on_) return;
    on_ = on;
    on ? wire_->attend() : wire_->leave();
  }

 private:
  Wire* wire_;
  bool on_ = false;
};

namespace detail {

// A thread that sleeps moves nothing: the wire's own thread does.
class Absence {
 public:
  explicit Absence(Wire* wire) : wire_(wire) {
    if (wire_ != nullptr) wire_->rest();
  }
  ~Absence() {
    if (wire_ != nullptr) wire_->attend();
  }
  Absence(const Absence&) = delete;
  Absence& operator=(const Absence&) = delete;

 private:
  Wire* wire_;
};

// Polls until ready or the spin is over; where things move, one begins anew with each that did: whoever sends the next
// then need not wake anybody. A pause takes 4 to 140 cycles, depending on the core, so the clock
// decides; it is read every 16 polls to cost little beside them. No sched_yield unless asked for: it helps on idle
// cores and ruins busy ones. Ring of 8 thread ranks on 2 cores, us a hop, one run of 1.5 s each on a shared machine:
//                     one yield   4 us of spin   asleep at once
//   cores idle           1.5           8.7             4.7
//   2 threads compute    271           31              12
template <class Ready, class Moved>
bool spin_until(Transport& transport, const Patience& patience, Ready& ready, Moved& moved) {
  if (ready()) return true;
  if (patience.spin.count() == 0 || (transport.crowded() && !patience.yields)) return false;
  const WireAttention attention(transport.wire());
  auto stop = std::chrono::steady_clock::now() + patience.spin;
  for (auto now = stop - patience.spin; now < stop; now = std::chrono::steady_clock::now()) {
    if (moved()) stop = now + patience.spin;
    for (int poll = 0; poll < 16; ++poll) {
      patience.yields ? static_cast<void>(sched_yield()) : cpu_pause();
      if (ready()) return true;
    }
  }
  return false;
}

}  // namespace detail

// Returns once ready() is true; ready must load with seq_cst (see bell.h). Throws what transport.check()
// throws when a rank has failed. After each sleep that ended without success, at least ten times a second,
// calls stuck(waited), which may throw: it knows what is awaited and from whom, so it words the deadline's
// Error. Where something is known to happen without a bell, at_most() says how long to sleep at the most; moved(),
// whether ready() did anything since it was last asked: more may be near then, and is spun for.
template <class Ready, class Stuck, class AtMost, class Moved>
void wait_until(Transport& transport, const Patience& patience, Ready&& ready, Stuck&& stuck, AtMost&& at_most,
                Moved&& moved) {
  if (detail::spin_until(transport, patience, ready, moved)) return;
  const auto start = std::chrono::steady_clock::now();
  Bell& bell = transport.bell(transport.rank());
  // A failure counts as news too, so that its bell is not lost between a check and the sleep.
  const auto ready_or_failed = [&] { return ready() || (transport.check(), false); };
  const detail::Absence absence(transport.wire());
  while (!sleep_unless(bell, ready_or_failed, at_most)) {
    stuck(std::chrono::nanoseconds(std::chrono::steady_clock::now() - start));
    if (moved() && detail::spin_until(transport, patience, ready, moved)) return;
  }
}

template <class Ready, class Stuck, class AtMost>
void wait_until(Transport& transport, const Patience& patience, Ready&& ready, Stuck&& stuck, AtMost&& at_most) {
  wait_until(transport, patience, ready, stuck, at_most, [] { return false; });
}

template <class Ready, class Stuck>
void wait_until(Transport& transport, const Patience& patience, Ready&& ready, Stuck&& stuck) {
  wait_until(transport, patience, ready, stuck, [] { return kSleepSlice; });
}

}  // namespace weft
