// What is tried, in this order, until the bound is met: whole tasks one at a time on every NIC; the same by search,
// where tasks are few; cut tasks one at a time; all at once, sharing NICs. Where none meets it (cuts fall on whole
// indices, uplinks bind), all choices are compared and the shortest taken.
#include "weft/reshard/schedule/meet_bound.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/reshard/schedule/choose_divided.h"
#include "weft/reshard/schedule/exact.h"
#include "weft/reshard/schedule/rack_tasks.h"
#include "weft/reshard/schedule/timing.h"

namespace weft {
namespace {

constexpr int kFewTasks = 64;  // up to here searches for a schedule without cuts cost little
constexpr double kEqual = 1 + 1e-9;

class Planner {
 public:
  Planner(const TaskSet& set, const Loads& loads, const ScheduleOptions& options)
      : set_(set), bound_(loads.seconds()), options_(options) {
    divided_ = choose_divided(set, loads);
    for (const Slice& slice : divided_)
      if (!(slice.box == set.task(slice.task).box)) ++num_parts_, is_cut_.insert(slice.task);
  }

  Attempt run() {
    const bool is_broadcast = set_.strategy == Strategy::broadcast;
    if (is_cut_.empty() && one_at_a_time(divided_, "whole tasks, balanced by flow, one at a time on every NIC"))
      return std::move(best_);
    if (set_.size() <= kFewTasks && search_whole()) return std::move(best_);
    if (!is_cut_.empty() && one_at_a_time(divided_, cut_words() + ", one at a time on every NIC"))
      return std::move(best_);
    if (is_broadcast && together(divided_, cut_words() + ", all at once, sharing NICs")) return std::move(best_);
    if (is_broadcast && by_racks()) return std::move(best_);
    compare_all();
    return std::move(best_);
  }

 private:
  std::string cut_words() const {
    if (is_cut_.empty()) return "whole tasks";
    return fmt::format("{} of {} tasks cut into {} parts among senders", is_cut_.size(), set_.size(), num_parts_);
  }

  // Keeps the shorter; whether the bound is met.
  bool keep(std::vector<Job> jobs, double makespan, const std::string& why) {
    if (best_.jobs.empty() || makespan * kEqual < best_.makespan_s) best_ = {std::move(jobs), makespan, why};
    return best_.makespan_s <= bound_ * kEqual;
  }
  bool one_at_a_time(const std::vector<Slice>& slices, const std::string& why) {
    std::vector<Job> jobs = jobs_of(set_, slices);
    const double makespan = run_one_at_a_time(jobs, set_.resources, bound_, options_.seed);
    return keep(std::move(jobs), makespan, why);
  }
  bool in_order(const std::vector<Slice>& slices, const std::string& why) {
    std::vector<Job> jobs = jobs_of(set_, slices);
    const double makespan = run_in_order(jobs, set_.resources);
    return keep(std::move(jobs), makespan, why);
  }
  bool together(const std::vector<Slice>& slices, const std::string& why) {
    std::vector<Job> jobs = jobs_of(set_, slices);
    const double makespan = run_together(jobs, set_.resources);
    return keep(std::move(jobs), makespan, why);
  }

  bool search_whole() {
    if (one_at_a_time(choose_balance(set_), "whole tasks, least loaded sender, one at a time on every NIC"))
      return true;
    std::size_t crossing = 0;
    for (int i = 0; i < set_.size(); ++i) crossing += !set_.sites(i).wanting.empty();
    if (crossing <= num(kMostExactTasks)) {
      const Exact exact = exact_search(set_, options_.node_budget / 10);
      if (in_order(exact.slices, "whole tasks, one at a time on every NIC, found by exact search")) return true;
    }
    return greedy() || dfs();
  }
  bool greedy() {
    return in_order(choose_greedy(set_, options_.node_budget, options_.seed),
                    "whole tasks in host-disjoint rounds, found by greedy");
  }
  bool dfs() { return in_order(choose_dfs(set_, options_.node_budget), "whole tasks in the order that dfs found"); }

  // Racks that hold a box serve themselves, so that uplinks carry only what they must; for all tasks or, where that
  // makes NICs busier than uplinks, for some.
  bool by_racks() {
    if (!set_.resources.has_uplinks()) return false;
    for (const double share : {1.0, 0.75, 0.5, 0.25}) {
      const RackTasks split = rack_tasks(set_.tasks, set_.network(), share);
      const SiteTable table(split.tasks, set_.network());
      const TaskSet inner{split.tasks, table, set_.resources, set_.strategy};
      std::vector<Job> jobs = jobs_of(inner, choose_divided(inner, loads_of(split.tasks, table, set_.network())));
      for (Job& job : jobs)
        for (Chunk& chunk : job.chunks) chunk.task = split.origin[at(chunk.task)];
      const double makespan = run_together(jobs, set_.resources);
      if (keep(std::move(jobs), makespan, "racks that hold a box serve themselves; all at once, sharing NICs"))
        return true;
    }
    return false;
  }

  void compare_all() {
    if (in_order(choose_naive(set_), "the shortest of all choices is that of naive")) return;
    if (in_order(choose_balance(set_), "the shortest of all choices is that of balance")) return;
    if (set_.strategy == Strategy::broadcast && together(choose_balance(set_), "whole tasks, sharing NICs")) return;
    if (set_.size() > kMostTasksOfAll || set_.size() <= kFewTasks) return;  // few: searched before
    if (!greedy()) dfs();
  }

  const TaskSet& set_;
  double bound_;
  const ScheduleOptions& options_;
  std::vector<Slice> divided_;
  std::set<int> is_cut_;  // tasks
  int num_parts_ = 0;
  Attempt best_;
};

}  // namespace

Attempt meet_bound(const TaskSet& set, const Loads& loads, const ScheduleOptions& options) {
  return Planner(set, loads, options).run();
}

}  // namespace weft
