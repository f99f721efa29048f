// Depth-first search over (task, sender): at every node the pair that can start first is tried first, and a branch ends
// where the work left on some NIC cannot end before the best schedule found.
#include <algorithm>

#include "weft/base/index.h"
#include "weft/reshard/schedule/candidates.h"
#include "weft/reshard/schedule/timing.h"

namespace weft {
namespace {

constexpr std::size_t kMostCandidates = 50'000;

class Search {
 public:
  Search(const TaskSet& set, const Candidates& candidates, std::int64_t budget, double limit)
      : candidates_(candidates),
        budget_(budget),
        best_(limit),
        free_at_(at(set.resources.size()), 0.0),
        left_(at(set.resources.size()), 0.0),
        is_done_(candidates.tasks.size()) {
    for (const auto& uses : candidates.least)
      for (const Use& use : uses) left_[at(use.resource)] += use.bytes;
  }

  std::vector<const Candidate*> run() {
    descend(0);
    return std::move(found_);
  }

 private:
  struct Branch {
    double begin, end;
    const Candidate* candidate;
    std::size_t task;
  };

  std::vector<Branch> branches() {
    std::vector<Branch> result;
    for (std::size_t t = 0; t < candidates_.tasks.size(); ++t) {
      if (is_done_[t]) continue;
      const int twin = candidates_.twin_before[t];
      if (twin >= 0 && !is_done_[at(twin)]) continue;  // equal tasks run in their order
      for (const Candidate& candidate : candidates_.of[t]) {
        --budget_;
        const double begin = candidate.begin_s(free_at_);
        const double end = begin + candidate.seconds;
        if (end < best_ * (1 - 1e-12)) result.push_back({begin, end, &candidate, t});
      }
    }
    std::stable_sort(result.begin(), result.end(), [](const Branch& a, const Branch& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.candidate->seconds > b.candidate->seconds;
    });
    return result;
  }

  bool is_hopeless() const {
    for (std::size_t r = 0; r < left_.size(); ++r)
      if (left_[r] > 0 && free_at_[r] + left_[r] >= best_ * (1 - 1e-12)) return true;
    return false;
  }

  void descend(double makespan) {
    if (path_.size() == candidates_.tasks.size()) {
      best_ = makespan;
      found_ = path_;
      return;
    }
    if (is_hopeless()) return;
    for (const Branch& branch : branches()) {
      if (budget_ <= 0) return;
      if (branch.end >= best_ * (1 - 1e-12)) continue;
      std::vector<std::pair<std::size_t, double>> before;
      for (const Use& use : branch.candidate->uses) {
        before.push_back({at(use.resource), free_at_[at(use.resource)]});
        free_at_[at(use.resource)] = branch.end;
      }
      for (const Use& use : candidates_.least[branch.task]) left_[at(use.resource)] -= use.bytes;
      is_done_[branch.task] = 1;
      path_.push_back(branch.candidate);
      descend(std::max(makespan, branch.end));
      path_.pop_back();
      is_done_[branch.task] = 0;
      for (const Use& use : candidates_.least[branch.task]) left_[at(use.resource)] += use.bytes;
      for (const auto& [resource, time] : before) free_at_[resource] = time;
    }
  }

  const Candidates& candidates_;
  std::int64_t budget_;
  double best_;
  std::vector<double> free_at_, left_;  // left_: seconds that are still to come, at least
  std::vector<char> is_done_;
  std::vector<const Candidate*> path_, found_;
};

}  // namespace

std::vector<Slice> choose_dfs(const TaskSet& set, std::int64_t node_budget) {
  std::vector<Slice> balance = choose_balance(set);
  std::size_t pairs = 0;
  for (int i = 0; i < set.size(); ++i) pairs += set.sites(i).exits.size();
  if (pairs > kMostCandidates) return balance;
  std::vector<Job> jobs = jobs_of(set, balance);
  const double limit = run_in_order(jobs, set.resources);
  const Candidates all = candidates(set);
  const std::vector<const Candidate*> found = Search(set, all, node_budget, limit).run();
  return found.empty() ? balance : slices_of(set, found);
}

}  // namespace weft
