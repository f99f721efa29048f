// Who waits for what in one abstract run: per counter the actions that wait for it, and per action how many of its
// waits are not met yet. Waits on earlier runs are met from the beginning.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "weft/plan/verify/model.h"

namespace weft::verifying {

class Waiters {
 public:
  explicit Waiters(const Model& model)
      : model_(model),
        value_(model.counters.size(), 0),
        missing_(model.acts.size(), 0),
        first_(model.counters.size() + 1, 0),
        waiters_(model.waits.size()) {
    for (const VWait& w : model.waits) ++first_[at(w.counter) + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    std::vector<std::int32_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t a = 0; a < model.acts.size(); ++a)
      for (const VWait& w : model.waits_of(model.acts[a])) {
        const bool counts = w.lag == 0 && w.at > 0;
        waiters_[at(next[at(w.counter)]++)] = {static_cast<std::int32_t>(a), counts ? w.at : 0};
        missing_[a] += counts;
      }
  }

  bool is_free(std::int32_t act) const { return missing_[at(act)] == 0; }
  std::uint64_t value(std::int32_t counter) const { return value_[at(counter)]; }

  // Counts the signals of an act that has ended; `freed` is called with each whose last wait that meets.
  template <typename Freed>
  void count(const Act& act, Freed&& freed) {
    for (const VSignal& g : model_.signals_of(act)) {
      std::uint64_t& value = value_[at(g.counter)];
      const std::uint64_t before = value;
      value += g.per > 0 ? static_cast<std::uint32_t>(g.per) : act.lanes;
      const std::int32_t first = first_[at(g.counter)], end = first_[at(g.counter) + 1];
      model_.spend(end - first);
      for (std::int32_t i = first; i < end; ++i) {
        const Waiter& w = waiters_[at(i)];
        if (before < w.at && value >= w.at && --missing_[at(w.act)] == 0) freed(w.act);
      }
    }
  }

 private:
  struct Waiter {
    std::int32_t act;
    std::uint32_t at;  // 0: met already
  };
  const Model& model_;
  std::vector<std::uint64_t> value_;
  std::vector<std::int32_t> missing_;
  std::vector<std::int32_t> first_;  // of each counter
  std::vector<Waiter> waiters_;
};

}  // namespace weft::verifying
