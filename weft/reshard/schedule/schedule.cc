// schedule(): a choice makes slices in an order, a strategy makes jobs of them, timing says when each runs.
#include "weft/reshard/schedule/schedule.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/names.h"
#include "weft/reshard/bound/bound.h"
#include "weft/reshard/schedule/choose.h"
#include "weft/reshard/schedule/meet_bound.h"
#include "weft/reshard/schedule/timing.h"

namespace weft {
namespace {

constexpr Names<Strategy, 5> kStrategies{{{Strategy::automatic, "auto"},
                                          {Strategy::send_recv, "send_recv"},
                                          {Strategy::local_allgather, "local_allgather"},
                                          {Strategy::global_allgather, "global_allgather"},
                                          {Strategy::broadcast, "broadcast"}}};
constexpr Names<Choice, 5> kChoices{{{Choice::naive, "naive"},
                                     {Choice::balance, "balance"},
                                     {Choice::dfs, "dfs"},
                                     {Choice::greedy, "greedy"},
                                     {Choice::ours, "ours"}}};

Attempt plan_whole(const TaskSet& set, const ScheduleOptions& options) {
  Attempt attempt;
  std::vector<Slice> slices;
  switch (options.choice) {
    case Choice::naive:
      slices = choose_naive(set);
      attempt.why = "the first replica sends each task, in the order of the tasks";
      break;
    case Choice::balance:
      slices = choose_balance(set);
      attempt.why = "the least loaded host sends each task, in the order of the tasks";
      break;
    case Choice::dfs:
      slices = choose_dfs(set, options.node_budget);
      attempt.why = "the best order of (task, sender) found within the node budget";
      break;
    default:
      slices = choose_greedy(set, options.node_budget, options.seed);
      attempt.why = "rounds of host-disjoint tasks, each the best of many random ones";
  }
  attempt.jobs = jobs_of(set, slices);
  attempt.makespan_s = run_in_order(attempt.jobs, set.resources);
  return attempt;
}

}  // namespace

std::string_view to_string(Strategy strategy) { return name_of(kStrategies, strategy); }
std::string_view to_string(Choice choice) { return name_of(kChoices, choice); }
Strategy parse_strategy(std::string_view name) { return parse_name(kStrategies, "strategy", name); }
Choice parse_choice(std::string_view name) { return parse_name(kChoices, "choice", name); }

Schedule schedule(const std::vector<Task>& tasks, const Network& network, const ScheduleOptions& options) {
  if (options.strategy == Strategy::automatic)
    bad_input("strategy auto has no schedule of its own; build() prices the others and takes one");
  const SiteTable table(tasks, network);
  const Resources resources(network);
  const TaskSet set{tasks, table, resources, options.strategy};
  const Loads loads = loads_of(tasks, table, network);
  Attempt attempt = options.choice == Choice::ours ? meet_bound(set, loads, options) : plan_whole(set, options);
  Schedule schedule;
  schedule.strategy = options.strategy;
  schedule.choice = options.choice;
  schedule.makespan_s = attempt.makespan_s;
  schedule.lower_bound_s = loads.seconds();
  schedule.optimal = schedule.makespan_s <= schedule.lower_bound_s * (1 + 1e-9);
  schedule.why = std::move(attempt.why);
  for (Job& job : attempt.jobs)
    for (Chunk& chunk : job.chunks) schedule.chunks.push_back(std::move(chunk));
  std::stable_sort(schedule.chunks.begin(), schedule.chunks.end(),
                   [](const Chunk& a, const Chunk& b) { return a.begin_s < b.begin_s; });
  return schedule;
}

}  // namespace weft
