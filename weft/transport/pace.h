// Links that cost something, with no root and no network: ranks of one machine, as slow to each other as asked for. A
// put is a plain copy at once. Its signal is not raised but handed to the link: it carries a not-before time from the
// clock of that link, and the receiver raises the counter when the time has come. So rate and latency show where they
// matter, in when a rank may go on; and nobody can go on earlier, since every read waits for a signal.
//
//   pace      a rate and a latency, and which ranks share a host; ranks of one host are not paced
//   link      one direction between two hosts: one clock, which all ops and all ranks of the two hosts share
//   transit   the signals of one op under way from one rank to another, in order
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace weft {

struct Pace {
  double bytes_per_s = 0;  // one direction
  double latency_s = 0;
  int ranks_per_host = 1;  // ranks fill hosts in blocks

  bool between(int a, int b) const { return host(a) != host(b); }
  int host(int rank) const { return rank / ranks_per_host; }
};

// The time that some bytes occupy their link, and when they are there.
struct Passage {
  std::int64_t begin_ns = 0, end_ns = 0;  // on the link
  std::int64_t due_ns = 0;                // there: the end and the latency
};

// Takes the next free time of a link whose clock says until when it is busy. Never waits.
Passage occupy(std::atomic<std::int64_t>& clock, const Pace& pace, std::int64_t bytes, std::int64_t now);

// A queue of signals in shared memory: many threads of one rank push; whoever looks delivers, one at a time. Signals are
// delivered in the order of their pushes, none before its time.
class Transit {
 public:
  static std::size_t bytes_for(std::uint32_t slots);
  // `memory`, zeroed at first, of bytes_for(slots) bytes, aligned to 64; slots is a power of two.
  Transit(std::byte* memory, std::uint32_t slots);

  enum class Push { queued, first, full };  // first: nothing was under way, so the receiver may have to be woken
  Push push(std::uint32_t counter, std::int64_t due_ns);

  static constexpr std::int64_t kNothing = INT64_MAX;
  // Calls raise(counter) for every signal whose time has come. Returns when to look again: the time of the first that
  // is still under way, or kNothing.
  template <class Raise>
  std::int64_t deliver(std::int64_t now, Raise&& raise);
  bool empty() const;

 private:
  struct Header {
    alignas(64) std::atomic<std::uint32_t> next;       // tickets given to pushes
    alignas(64) std::atomic<std::uint32_t> delivered;  // tickets whose signals have been raised
    std::atomic<std::uint32_t> busy;                   // 1 while somebody delivers
  };
  struct Slot {
    std::atomic<std::uint32_t> ticket;  // 1 + the ticket whose signal it holds
    std::uint32_t counter;
    std::int64_t due_ns;
  };

  Header* header_;
  Slot* slots_;
  std::uint32_t mask_;
};

// How long to sleep at the most where a signal is due at that time, or Transit::kNothing.
std::chrono::nanoseconds sleep_until(std::int64_t due_ns);

template <class Raise>
std::int64_t Transit::deliver(std::int64_t now, Raise&& raise) {
  if (empty()) return kNothing;
  if (header_->busy.exchange(1, std::memory_order_acquire) != 0) return now;  // somebody is at it
  std::int64_t again = kNothing;
  std::uint32_t ticket = header_->delivered.load(std::memory_order_relaxed);
  for (;;) {
    // Acquire pairs with push: what the sender stored before it signalled is there before the counter grows. Seq_cst,
    // as is the store of `delivered`: a push that finds signals before its own relies on us to find it after them.
    const Slot& slot = slots_[ticket & mask_];
    if (slot.ticket.load(std::memory_order_seq_cst) != ticket + 1) break;
    if (slot.due_ns > now) {
      again = slot.due_ns;
      break;
    }
    raise(slot.counter);
    header_->delivered.store(++ticket, std::memory_order_seq_cst);
  }
  header_->busy.store(0, std::memory_order_release);
  return again;
}

}  // namespace weft
