// Promise 2: no timing deadlocks the plan. Counters only grow and waits are thresholds, so execution is
// confluent: if one order of a run completes, every order does, and so does every later run (its waits on
// earlier runs are met once those have completed). So one abstract run decides: each rank takes its steps in
// listed order, as a single thread would, and fires triggers as they become ready.
#include <numeric>
#include <vector>

#include <fmt/core.h>

#include "weft/plan/verify/model.h"

namespace weft::verifying {
namespace {

class AbstractRun {
 public:
  explicit AbstractRun(Model& model)
      : model_(model),
        value_(model.counters.size(), 0),
        missing_(model.acts.size(), 0),
        first_waiter_(model.counters.size() + 1, 0),
        next_step_(model.acts_of.size()) {}

  std::vector<std::int32_t> run() {
    register_waits();
    for (std::size_t rank = 0; rank < model_.acts_of.size(); ++rank) {
      next_step_[rank] = model_.acts_of[rank].begin;
      to_next_step(rank);
      for (std::int32_t a = model_.acts_of[rank].begin; a < model_.acts_of[rank].end; ++a)
        if (!model_.acts[a].is_step && missing_[a] == 0) ready_.push_back(a);
      offer_step(rank);
    }
    // A queue, not a stack: the order is then close to that of a real run, and so are the messages.
    for (std::size_t i = 0; i < ready_.size(); ++i) finish(ready_[i]);
    if (ready_.size() < model_.acts.size()) report();
    return std::move(ready_);
  }

 private:
  void register_waits() {
    for (const VWait& w : model_.waits) ++first_waiter_[w.counter + 1];
    std::partial_sum(first_waiter_.begin(), first_waiter_.end(), first_waiter_.begin());
    waiters_.resize(model_.waits.size());
    std::vector<std::int32_t> next(first_waiter_.begin(), first_waiter_.end() - 1);
    for (std::size_t a = 0; a < model_.acts.size(); ++a)
      for (const VWait& w : model_.waits_of(model_.acts[a])) {
        const bool counts = w.lag == 0 && w.at > 0;
        waiters_[next[w.counter]++] = {static_cast<std::int32_t>(a), counts ? w.at : 0};
        missing_[a] += counts;
      }
    ready_.reserve(model_.acts.size());
  }

  void to_next_step(std::size_t rank) {
    std::int32_t& at = next_step_[rank];
    while (at < model_.acts_of[rank].end && !model_.acts[at].is_step) ++at;
  }

  void offer_step(std::size_t rank) {
    const std::int32_t at = next_step_[rank];
    if (at < model_.acts_of[rank].end && missing_[at] == 0) ready_.push_back(at);
  }

  void finish(std::int32_t a) {
    const Act& act = model_.acts[a];
    if (act.is_step) {
      ++next_step_[act.rank];
      to_next_step(act.rank);
      offer_step(act.rank);
    }
    for (const VSignal& g : model_.signals_of(act)) {
      std::uint64_t& value = value_[g.counter];
      const std::uint64_t before = value;
      value += g.per > 0 ? static_cast<std::uint32_t>(g.per) : act.lanes;
      model_.spend(first_waiter_[g.counter + 1] - first_waiter_[g.counter]);
      for (std::int32_t i = first_waiter_[g.counter]; i < first_waiter_[g.counter + 1]; ++i) {
        const Waiter& w = waiters_[i];
        if (before >= w.at || value < w.at || --missing_[w.act] > 0) continue;
        const Act& freed = model_.acts[w.act];
        if (!freed.is_step || next_step_[freed.rank] == w.act) ready_.push_back(w.act);
      }
    }
  }

  // Names the first action of the lowest rank that waits for a counter nobody can raise.
  void report() {
    for (std::size_t a = 0; a < model_.acts.size(); ++a) {
      if (missing_[a] == 0) continue;
      const Act& act = model_.acts[a];
      for (const VWait& w : model_.waits_of(act)) {
        if (w.lag != 0 || value_[w.counter] >= w.at) continue;
        return model_.problem(
            fmt::format("{} waits for {} to reach {}, but it stops at {}: nothing that could raise it can run",
                        model_.name(act), model_.counter_name(model_.counters[w.counter]), w.at, value_[w.counter]));
      }
    }
    model_.problem("some step can never run");
  }

  struct Waiter {
    std::int32_t act;
    std::uint32_t at;
  };
  Model& model_;
  std::vector<std::uint64_t> value_;
  std::vector<std::int32_t> missing_;
  std::vector<std::int32_t> first_waiter_;  // of each counter
  std::vector<Waiter> waiters_;             // at 0: met already
  std::vector<std::int32_t> next_step_;
  std::vector<std::int32_t> ready_;
};

}  // namespace

void check_order(Model& model, std::vector<std::int32_t>* order) { *order = AbstractRun(model).run(); }

}  // namespace weft::verifying
