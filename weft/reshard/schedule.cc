// schedule(): a choice makes pieces in an order, a strategy makes jobs of them, timing says when each runs.
#include "weft/reshard/schedule.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/names.h"
#include "weft/reshard/pieces.h"
#include "weft/reshard/timing.h"

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

std::vector<Piece> choose_naive(const std::vector<Task>& tasks, const SiteTable& table, const Network& network) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Sites& sites = table.of(static_cast<int>(i));
    pieces.push_back(
        chain(tasks[i], static_cast<int>(i), sites, network, tasks[i].senders.front(), first_entries(sites)));
  }
  return pieces;
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
  std::vector<Job> jobs;
  for (const Piece& piece : choose_naive(tasks, table, network))
    add_jobs(options.strategy, piece, tasks[static_cast<std::size_t>(piece.task)], table.of(piece.task), resources,
             jobs);
  Schedule schedule;
  schedule.strategy = options.strategy;
  schedule.choice = Choice::naive;
  schedule.makespan_s = run_in_order(jobs, resources);
  schedule.why = "the first replica sends each task, in the order of the tasks";
  for (Job& job : jobs)
    for (Chunk& chunk : job.chunks) schedule.chunks.push_back(std::move(chunk));
  std::stable_sort(schedule.chunks.begin(), schedule.chunks.end(),
                   [](const Chunk& a, const Chunk& b) { return a.begin_s < b.begin_s; });
  return schedule;
}

}  // namespace weft
