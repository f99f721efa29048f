#include "weft/schedule/check.h"

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft::pipeline {
namespace {

constexpr std::size_t kMostProblems = 8;

class Checker {
 public:
  explicit Checker(const Schedule& schedule) : schedule_(schedule) {
    // An item of a stage stands at most once, so this many of each fit; -1: not there.
    place_.assign(num(std::int64_t{schedule.num_positions()} * schedule.num_micro_batches) * kNumWorks, -1);
  }

  Verdict run() {
    for (int stage = 0; stage < schedule_.num_stages(); ++stage) read_stage(stage);
    if (verdict_.ok())
      for (int stage = 0; stage < schedule_.num_stages(); ++stage) check_stage(stage);
    if (verdict_.ok()) check_progress();
    if (verdict_.ok())
      for (int stage = 0; stage < schedule_.num_stages(); ++stage) count_peaks(stage);
    return std::move(verdict_);
  }

 private:
  int& place(Work work, int position, int micro_batch) {
    return place_[num((std::int64_t{position} * schedule_.num_micro_batches + micro_batch) * kNumWorks) + at(work)];
  }

  template <typename... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    if (verdict_.problems.size() < kMostProblems)
      verdict_.problems.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  std::string name(const WorkItem& item) const { return to_string(item, schedule_.num_chunks); }

  // Where each item of the stage stands; items that are not of this pipeline or stand twice.
  void read_stage(int stage) {
    const auto& items = schedule_.stages[at(stage)];
    for (int k = 0; k < int_size(items); ++k) {
      const WorkItem& item = items[at(k)];
      const bool known = static_cast<int>(item.work) < kNumWorks;
      if (!known || item.chunk < 0 || item.chunk >= schedule_.num_chunks || item.micro_batch < 0 ||
          item.micro_batch >= schedule_.num_micro_batches) {
        problem("stage {}, item {}: {}, chunk {}, which this pipeline has not", stage, k, to_string(item, 1),
                item.chunk);
        continue;
      }
      int& here = place(item.work, schedule_.position(stage, item.chunk), item.micro_batch);
      if (here >= 0) problem("stage {} does the {} twice, as items {} and {}", stage, name(item), here, k);
      here = k;
    }
  }

  void check_stage(int stage) {
    for (int chunk = 0; chunk < schedule_.num_chunks; ++chunk)
      for (int b = 0; b < schedule_.num_micro_batches; ++b) check_micro_batch(stage, chunk, b);
  }

  // Either a backward or both its parts, and all in order.
  void check_micro_batch(int stage, int chunk, int b) {
    const int position = schedule_.position(stage, chunk);
    const auto at_item = [&](Work work) { return place(work, position, b); };
    const int forward = at_item(Work::forward), whole = at_item(Work::backward),
              weight = at_item(Work::backward_weight);
    const int input = at_item(Work::backward_input), again = at_item(Work::recompute);
    const auto missing = [&](Work work) { problem("stage {} never does the {}", stage, name({work, chunk, b})); };
    const auto order = [&](Work first, Work then) {
      if (at_item(first) > at_item(then))
        problem("stage {} does the {} before the {}", stage, name({then, chunk, b}), name({first, chunk, b}));
    };
    if (forward < 0) return missing(Work::forward);
    if (whole >= 0 && (input >= 0 || weight >= 0))
      return problem("stage {} does the {} whole and in parts", stage, name({Work::backward, chunk, b}));
    if (whole < 0 && input < 0) return missing(weight < 0 ? Work::backward : Work::backward_input);
    if (whole < 0 && weight < 0) return missing(Work::backward_weight);
    const Work back = whole >= 0 ? Work::backward : Work::backward_input;
    order(Work::forward, back);
    if (whole < 0) order(Work::backward_input, Work::backward_weight);
    if (again < 0) return;
    order(Work::forward, Work::recompute);
    order(Work::recompute, back);
  }

  // What an item needs from the position before or after it; none where it needs nothing from there.
  std::optional<WorkItem> needed(int stage, const WorkItem& item, int* from_stage) {
    const int n = schedule_.num_stages(), position = schedule_.position(stage, item.chunk);
    if (item.work == Work::forward && position > 0) {
      *from_stage = (position - 1) % n;
      return WorkItem{Work::forward, (position - 1) / n, item.micro_batch};
    }
    if (is_backward(item.work) && position + 1 < schedule_.num_positions()) {
      *from_stage = (position + 1) % n;
      const bool whole = place(Work::backward, position + 1, item.micro_batch) >= 0;
      return WorkItem{whole ? Work::backward : Work::backward_input, (position + 1) / n, item.micro_batch};
    }
    return {};
  }

  // Every stage goes on as far as it can; where it stops, it is looked at again when the stage it waits for moves.
  void check_progress() {
    const int n = schedule_.num_stages();
    std::vector<int> next(num(n), 0), waits_for(num(n), -1), ready;
    for (int stage = n - 1; stage >= 0; --stage) ready.push_back(stage);
    while (!ready.empty()) {
      const int stage = ready.back();
      ready.pop_back();
      waits_for[at(stage)] = advance(stage, &next);
      for (const int other : {(stage + n - 1) % n, (stage + 1) % n}) wake(other, stage, next, &waits_for, &ready);
    }
    for (int stage = 0; stage < n; ++stage) {
      if (next[at(stage)] == int_size(schedule_.stages[at(stage)])) continue;
      int from = 0;
      const WorkItem& item = schedule_.stages[at(stage)][at(next[at(stage)])];
      const auto need = needed(stage, item, &from);
      problem("stages wait for each other: stage {} would do the {} (item {}), which needs the {} of stage {}", stage,
              name(item), next[at(stage)], name(*need), from);
    }
  }

  void wake(int other, int moved, const std::vector<int>& next, std::vector<int>* waits_for, std::vector<int>* ready) {
    if (other == moved || (*waits_for)[at(other)] != moved) return;
    int from = 0;
    const auto need = needed(other, schedule_.stages[at(other)][at(next[at(other)])], &from);
    if (place(need->work, schedule_.position(from, need->chunk), need->micro_batch) >= next[at(moved)]) return;
    (*waits_for)[at(other)] = -1;
    ready->push_back(other);
  }

  // Returns the stage that this one waits for, -1 where it has ended.
  int advance(int stage, std::vector<int>* next) {
    const auto& items = schedule_.stages[at(stage)];
    for (int& k = (*next)[at(stage)]; k < int_size(items); ++k) {
      int from = 0;
      const auto need = needed(stage, items[at(k)], &from);
      if (need && place(need->work, schedule_.position(from, need->chunk), need->micro_batch) >= (*next)[at(from)])
        return from;
    }
    return -1;
  }

  void count_peaks(int stage) {
    int held = 0, recomputed = 0, most = 0, most_recomputed = 0;
    for (const WorkItem& item : schedule_.stages[at(stage)]) {
      if (item.work == Work::forward) most = std::max(most, ++held);
      if (item.work == Work::recompute) most_recomputed = std::max(most_recomputed, ++recomputed);
      if (item.work != Work::backward && item.work != Work::backward_weight) continue;
      --held;
      if (place(Work::recompute, schedule_.position(stage, item.chunk), item.micro_batch) >= 0) --recomputed;
    }
    verdict_.peak_activations.push_back(static_cast<double>(most) / schedule_.num_chunks);
    verdict_.peak_recomputed.push_back(static_cast<double>(most_recomputed) / schedule_.num_chunks);
  }

  const Schedule& schedule_;
  std::vector<int> place_;
  Verdict verdict_;
};

}  // namespace

double Verdict::peak() const {
  return peak_activations.empty() ? 0 : *std::max_element(peak_activations.begin(), peak_activations.end());
}

Verdict check(const Schedule& schedule) {
  check_sizes(schedule.num_stages(), schedule.num_micro_batches, schedule.num_chunks);
  return Checker(schedule).run();
}

}  // namespace weft::pipeline
