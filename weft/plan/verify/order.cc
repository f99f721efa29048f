// Promise 2: no timing deadlocks the plan. Counters only grow and waits are thresholds, so execution is
// confluent: if one order of a run completes, every order does, and so does every later run (its waits on
// earlier runs are met once those have completed). So one abstract run decides: each rank takes its steps in
// listed order, as a single thread would, and fires triggers as they become ready.
#include <vector>

#include <fmt/core.h>

#include "weft/plan/verify/model.h"
#include "weft/plan/verify/waiters.h"

namespace weft::verifying {
namespace {

class AbstractRun {
 public:
  explicit AbstractRun(Model& model) : model_(model), waiters_(model), next_step_(model.acts_of.size()) {}

  std::vector<std::int32_t> run() {
    ready_.reserve(model_.acts.size());
    for (std::size_t rank = 0; rank < model_.acts_of.size(); ++rank) {
      next_step_[rank] = model_.acts_of[rank].begin;
      to_next_step(rank);
      for (std::int32_t a = model_.acts_of[rank].begin; a < model_.acts_of[rank].end; ++a)
        if (!model_.acts[a].is_step && waiters_.is_free(a)) ready_.push_back(a);
      offer_step(rank);
    }
    // A queue, not a stack: the order is then close to that of a real run, and so are the messages.
    for (std::size_t i = 0; i < ready_.size(); ++i) finish(ready_[i]);
    if (ready_.size() < model_.acts.size()) report();
    return std::move(ready_);
  }

 private:
  void to_next_step(std::size_t rank) {
    std::int32_t& at = next_step_[rank];
    while (at < model_.acts_of[rank].end && !model_.acts[at].is_step) ++at;
  }

  void offer_step(std::size_t rank) {
    const std::int32_t at = next_step_[rank];
    if (at < model_.acts_of[rank].end && waiters_.is_free(at)) ready_.push_back(at);
  }

  void finish(std::int32_t a) {
    const Act& act = model_.acts[a];
    if (act.is_step) {
      ++next_step_[act.rank];
      to_next_step(act.rank);
      offer_step(act.rank);
    }
    waiters_.count(act, [&](std::int32_t freed) {
      const Act& other = model_.acts[freed];
      if (!other.is_step || next_step_[other.rank] == freed) ready_.push_back(freed);
    });
  }

  // Names the first action of the lowest rank that waits for a counter nobody can raise.
  void report() {
    for (std::size_t a = 0; a < model_.acts.size(); ++a) {
      if (waiters_.is_free(static_cast<std::int32_t>(a))) continue;
      const Act& act = model_.acts[a];
      for (const VWait& w : model_.waits_of(act)) {
        const std::uint64_t value = waiters_.value(w.counter);
        if (w.lag != 0 || value >= w.at) continue;
        return model_.problem(
            fmt::format("{} waits for {} to reach {}, but it stops at {}: nothing that could raise it can run",
                        model_.name(act), model_.counter_name(model_.counters[w.counter]), w.at, value));
      }
    }
    model_.problem("some step can never run");
  }

  Model& model_;
  Waiters waiters_;
  std::vector<std::int32_t> next_step_;
  std::vector<std::int32_t> ready_;
};

}  // namespace

void check_order(Model& model, std::vector<std::int32_t>* order) { *order = AbstractRun(model).run(); }

}  // namespace weft::verifying
