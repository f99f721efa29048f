// Links that cost something, with no root and no network: ranks of one machine are as slow to each other as asked for.
// A put is a plain copy at once. Its signal is not raised but handed to the link. There it gets a time before which it
// must not be raised, from the clock of that link, and the receiver raises the counter when that time has come. So rate
// and latency show where they matter: in when a rank may go on. Nobody can go on earlier, since every read waits for a
// signal.
//
//   pace      a rate and a latency, and which ranks share a host; ranks of one host are not paced
//   link      fabric `pairs`: one direction between two hosts; `nic`: all that leaves a host, and all that enters one.
//             Each link has one clock, which all ops and all ranks of its hosts share
//   transit   the signals of one op under way from one rank to another, in order
//
// How a NIC is shared. What leaves a host is served in the order in which it is issued: `occupy` takes the next free
// time of the sender's clock. What enters a host cannot be served in that way: a sender issues all it has at once, and
// would take the receiver's clock for a long time ahead of everybody else. So a signal carries when its bytes begin to
// arrive and how long they take. The receiver charges its own clock once that time has come, earliest first over the
// heads of its transits: arrival ends at max(clock, begin) + took. Hence:
//   rate       The clock is charged by recorded times, never by the time of the look. Where a host has one rank and one
//              op, late looks lose nothing: what is charged late is charged as it would have been in time. Where it has
//              more, each charges its own, and one that looks L late may find that others have used the time which it
//              could have had. Its bytes, and what queues behind them, are then at most L late. This does not add up
//              from look to look, since a clock that is ahead of the arrivals wastes no time (a FIFO server whose
//              arrivals come up to L late ends up to L late).
//   heads      Only heads are charged, and a charged head that is not due yet hides those behind it. That loses no
//              time: until it is due the clock is ahead of now, and whatever is charged meanwhile began before now.
//   fairness   Under pressure senders take turns, one signal each, and the order of each sender is kept.
//   no bytes   A signal that covers no bytes waits for no NIC, only for those before it in its own transit: packets of
//              one flow pass between those of another. So signals of different ops may pass each other, and ranks must
//              start their ops in one order (Op::run) and not when something of theirs has come.
//   progress   Time alone moves a clock's end past, and a full transit is emptied by its sender where nobody else
//              looks. So no signal waits for another rank to do something, and a plan that ends without links ends with
//              them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "weft/base/fabric.h"

namespace weft {

struct Pace {
  double bytes_per_s = 0;  // one direction
  double latency_s = 0;
  int ranks_per_host = 1;  // ranks fill hosts in blocks
  Fabric fabric = Fabric::pairs;

  bool between(int a, int b) const { return host(a) != host(b); }
  int host(int rank) const { return rank / ranks_per_host; }
};

// The time that some bytes occupy their link, and when they are there.
struct Passage {
  std::int64_t begin_ns = 0, end_ns = 0;  // on the link
  std::int64_t due_ns = 0;  // there: the end and the latency; not before, where the receiver's NIC is shared

  std::int64_t took_ns() const { return end_ns - begin_ns; }
};

// Takes the next free time of a link whose clock says until when it is busy. Never waits.
Passage occupy(std::atomic<std::int64_t>& clock, const Pace& pace, std::int64_t bytes, std::int64_t now);

// A queue of signals in shared memory: many threads of one rank push; whoever looks delivers, one at a time. Signals
// are delivered in the order of their pushes, none before its time.
class Transit {
 public:
  static std::size_t bytes_for(std::uint32_t slots);
  // `memory`, zeroed at first, of bytes_for(slots) bytes, aligned to 64; slots is a power of two.
  Transit(std::byte* memory, std::uint32_t slots);

  enum class Push { queued, first, full };  // first: nothing was under way, so the receiver may have to be woken
  // `arriving_ns`: how long before due_ns its bytes begin to arrive at the receiver's NIC; 0: no NIC is to be charged.
  Push push(std::uint32_t counter, std::int64_t due_ns, std::int64_t arriving_ns = 0);

  static constexpr std::int64_t kNothing = INT64_MAX;
  // Calls raise(counter) for every signal whose time has come. Returns when to look again: the time of the first that
  // is still under way, or kNothing. `nic` is the receiver's clock, where signals have to be charged to it.
  template <class Raise>
  std::int64_t deliver(std::int64_t now, Raise&& raise, std::atomic<std::int64_t>* nic = nullptr);
  bool empty() const;

  // The first signal under way, for those who choose among transits: out of date where somebody else delivers.
  struct Head {
    std::int64_t due_ns = 0, arriving_ns = 0;
    std::int64_t turn_ns() const { return due_ns - arriving_ns; }  // when to charge it, or, charged, to raise it
  };
  std::optional<Head> head() const;
  // As deliver(), for the head alone: charges it if its bytes arrive by now, raises it if it is due. False where
  // somebody else is at it.
  template <class Raise>
  bool deliver_head(std::int64_t now, Raise&& raise, std::atomic<std::int64_t>* nic);

 private:
  struct Header {
    alignas(64) std::atomic<std::uint32_t> next;       // tickets given to pushes
    alignas(64) std::atomic<std::uint32_t> delivered;  // tickets whose signals have been raised
    std::atomic<std::uint32_t> busy;                   // 1 while somebody delivers
  };
  struct Slot {
    std::atomic<std::uint32_t> ticket;  // 1 + the ticket whose signal it holds
    std::uint32_t counter;
    // Atomic for head(), which may look while the slot is used again.
    std::atomic<std::int64_t> due_ns, arriving_ns;
  };

  const Slot* first_slot() const;  // null: nothing is under way
  bool is_due(Slot& slot, std::int64_t now, std::atomic<std::int64_t>* nic);
  bool lock() { return header_->busy.exchange(1, std::memory_order_acquire) == 0; }
  void unlock() { header_->busy.store(0, std::memory_order_release); }

  Header* header_;
  Slot* slots_;
  std::uint32_t mask_;
};

// How long to sleep at the most where a signal is due at that time, or Transit::kNothing.
std::chrono::nanoseconds sleep_until(std::int64_t due_ns);

template <class Raise>
std::int64_t Transit::deliver(std::int64_t now, Raise&& raise, std::atomic<std::int64_t>* nic) {
  if (empty()) return kNothing;
  if (!lock()) return now;  // somebody is at it
  std::int64_t again = kNothing;
  std::uint32_t ticket = header_->delivered.load(std::memory_order_relaxed);
  for (;;) {
    // Acquire pairs with push: what the sender stored before it signalled is there before the counter grows. Seq_cst,
    // as is the store of `delivered`: a push that finds signals before its own relies on us to find it after them.
    Slot& slot = slots_[ticket & mask_];
    if (slot.ticket.load(std::memory_order_seq_cst) != ticket + 1) break;
    if (!is_due(slot, now, nic)) {
      again = slot.due_ns.load(std::memory_order_relaxed);
      break;
    }
    raise(slot.counter);
    header_->delivered.store(++ticket, std::memory_order_seq_cst);
  }
  unlock();
  return again;
}

template <class Raise>
bool Transit::deliver_head(std::int64_t now, Raise&& raise, std::atomic<std::int64_t>* nic) {
  if (!lock()) return false;
  const std::uint32_t ticket = header_->delivered.load(std::memory_order_relaxed);
  Slot& slot = slots_[ticket & mask_];
  if (slot.ticket.load(std::memory_order_seq_cst) == ticket + 1 && is_due(slot, now, nic)) {
    raise(slot.counter);
    header_->delivered.store(ticket + 1, std::memory_order_seq_cst);
  }
  unlock();
  return true;
}

}  // namespace weft
