#include "weft/exec/cpu/signals.h"

#include "weft/base/index.h"

namespace weft {

// In a run a counter grows by exactly its total (verify() has proved it), so a rank that gives it that many signals is
// the only one to do so. Of several threads two might do so at once, unless there is just one signal.
Signals::Signals(const Expander& expander, const Program& program, const Memory& memory, int threads, Signalling how)
    : memory_(memory), rank_(program.rank), threads_(threads), how_(how), known_(num(expander.num_ranks())) {
  if (how == Signalling::fenced) return;
  std::vector<std::vector<std::uint32_t>> given(known_.size());
  for (const Action& action : program.actions)
    for (const Signal& signal : program.signals_of(action)) {
      auto& counts = given[signal.rank];
      if (counts.empty()) counts.resize(num(expander.num_counters(signal.rank)));
      for (std::int64_t lane = 0; lane < action.lanes; ++lane)
        ++counts[signal.counter + (signal.per > 0 ? lane / signal.per : 0)];
    }
  for (std::size_t rank = 0; rank < given.size(); ++rank) {
    known_[rank].resize(given[rank].size());
    for (std::size_t c = 0; c < given[rank].size(); ++c) {
      if (given[rank][c] == 0) continue;
      const std::uint32_t total = expander.counter_total(static_cast<int>(c), static_cast<int>(rank));
      known_[rank][c].sole = given[rank][c] == total && (threads == 1 || total == 1);
    }
  }
}

void Signals::begin_at(const Expander& expander, std::uint32_t run) {
  for (std::size_t rank = 0; rank < known_.size(); ++rank)
    for (std::size_t c = 0; c < known_[rank].size(); ++c)
      known_[rank][c].value = run * expander.counter_total(static_cast<int>(c), static_cast<int>(rank));
}

}  // namespace weft
