// How one rank raises counters. A counter that this rank alone raises needs no atomic addition: the rank knows its
// value and stores the next one. With quiet signals (transport/local/bell.h) that is a plain store, so that the bytes
// of a tile can still be on their way out of the core while the next tile is made.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/exec/cpu/memory.h"
#include "weft/plan/program.h"

namespace weft {

enum class Signalling { fenced, quiet };

class Signals {
 public:
  // `threads` of this rank may raise counters at once.
  Signals(const Expander& expander, const Program& program, const Memory& memory, int threads, Signalling how);

  // So many runs have been, modulo 2^32.
  void begin_at(const Expander& expander, std::uint32_t run);

  void raise(int rank, std::int64_t counter) {
    const auto value = memory_.counter(rank, counter);
    if (how_ == Signalling::fenced) {
      value.fetch_add(1, std::memory_order_seq_cst);
      ring_if_asleep(*memory_.bells[rank]);
      return;
    }
    // Release: what this lane stored is there for whoever acquires the counter (met() of the executor).
    if (Known& known = known_[rank][counter]; known.sole)
      value.store(++known.value, std::memory_order_release);
    else
      value.fetch_add(1, std::memory_order_seq_cst);
    if (rank != rank_ || threads_ > 1) ring_if_asleep_quietly(*memory_.bells[rank]);  // a rank of one thread is awake
  }

 private:
  struct Known {
    std::uint32_t value = 0;  // as raised by this rank; counters are compared modulo 2^32
    bool sole = false;        // nobody else raises it, and never two threads at once
  };

  const Memory& memory_;
  int rank_, threads_;
  Signalling how_;
  std::vector<std::vector<Known>> known_;  // of every rank's counters; empty where this rank raises none
};

}  // namespace weft
