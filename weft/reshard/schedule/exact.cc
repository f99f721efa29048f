#include "weft/reshard/schedule/exact.h"

#include <algorithm>
#include <limits>
#include <map>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/reshard/schedule/candidates.h"

namespace weft {
namespace {

// Appending jobs at the end of what their NICs have makes every schedule in which no job could start earlier by itself,
// and one of those is shortest: sorted by their begins, the jobs of any schedule can be appended without any beginning
// later.
class ExactSearch {
 public:
  ExactSearch(const Candidates& candidates, int num_resources, std::int64_t budget)
      : candidates_(candidates), budget_(budget), best_(std::numeric_limits<double>::infinity()) {
    descend(0, std::vector<double>(at(num_resources), 0.0), 0);
  }
  bool is_complete() const { return budget_ > 0; }
  double best() const { return best_; }
  const std::vector<const Candidate*>& found() const { return found_; }

 private:
  void descend(unsigned done, const std::vector<double>& free_at, double makespan) {
    if (path_.size() == candidates_.tasks.size()) {
      if (makespan < best_) best_ = makespan, found_ = path_;
      return;
    }
    if (--budget_ <= 0 || bound(done, free_at, makespan) >= best_ * (1 - 1e-12) || is_seen(done, free_at, makespan))
      return;
    for (std::size_t t = 0; t < candidates_.tasks.size(); ++t) {
      if (done >> t & 1u) continue;
      for (const Candidate& candidate : candidates_.of[t]) {
        std::vector<double> after = free_at;
        const double end = candidate.begin_s(free_at) + candidate.seconds;
        for (const Use& use : candidate.uses) after[at(use.resource)] = end;
        path_.push_back(&candidate);
        descend(done | 1u << t, after, std::max(makespan, end));
        path_.pop_back();
      }
    }
  }

  // The busiest resource if what is left ran on it without a pause.
  double bound(unsigned done, const std::vector<double>& free_at, double makespan) const {
    std::vector<double> end = free_at;
    for (std::size_t t = 0; t < candidates_.tasks.size(); ++t)
      if (!(done >> t & 1u))
        for (const Use& use : candidates_.least[t]) makespan = std::max(makespan, end[at(use.resource)] += use.bytes);
    return makespan;
  }

  // A state with the same tasks done, every NIC free no later and no longer makespan so far makes this one needless.
  bool is_seen(unsigned done, const std::vector<double>& free_at, double makespan) {
    std::vector<double> state = free_at;
    state.push_back(makespan);
    std::vector<std::vector<double>>& states = seen_[done];
    for (const std::vector<double>& other : states)
      if (std::equal(other.begin(), other.end(), state.begin(), [](double a, double b) { return a <= b; })) return true;
    states.push_back(std::move(state));
    return false;
  }

  const Candidates& candidates_;
  std::int64_t budget_;
  double best_;
  std::vector<const Candidate*> path_, found_;
  std::map<unsigned, std::vector<std::vector<double>>> seen_;
};

}  // namespace

Exact exact_search(const TaskSet& set, std::int64_t node_budget) {
  const Candidates all = candidates(set);
  if (all.tasks.size() > at(kMostExactTasks))
    bad_input("an exact search over {} tasks; use it for at most {}", all.tasks.size(), kMostExactTasks);
  const ExactSearch search(all, set.resources.size(), node_budget);
  if (search.found().size() < all.tasks.size()) return {choose_balance(set), search.best(), false};
  return {slices_of(set, search.found()), all.tasks.empty() ? 0 : search.best(),
          search.is_complete() && !set.resources.has_uplinks()};
}

}  // namespace weft
