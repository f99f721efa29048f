// The two simplest choices, and what others share with them.
#include <algorithm>
#include <numeric>

#include "weft/base/index.h"
#include "weft/reshard/schedule/choose.h"

namespace weft {
namespace {}  // namespace

std::vector<int> largest_first(const std::vector<Task>& tasks) {
  std::vector<int> order(tasks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return tasks[at(a)].bytes > tasks[at(b)].bytes; });
  return order;
}

int copies_sent(Strategy strategy, const Sites& sites) {
  if (strategy == Strategy::local_allgather) return int_size(sites.wanting);
  if (strategy != Strategy::send_recv) return 1;
  std::size_t receivers = 0;
  for (const Site& site : sites.wanting) receivers += site.receivers.size();
  return static_cast<int>(receivers);
}

std::vector<Job> jobs_of(const Problem& problem, const std::vector<Slice>& pieces) {
  std::vector<Job> jobs;
  for (const Slice& piece : pieces)
    add_jobs(problem.strategy, piece, problem.task(piece.task), problem.sites(piece.task), problem.resources, jobs);
  return jobs;
}

std::vector<Slice> choose_naive(const Problem& problem) {
  std::vector<Slice> pieces;
  for (int i = 0; i < problem.size(); ++i)
    pieces.push_back(chain(problem.task(i), i, problem.sites(i), problem.network(), problem.task(i).senders.front(),
                           first_entries(problem.sites(i))));
  return pieces;
}

std::vector<std::vector<int>> balanced_entries(const Problem& problem) {
  std::vector<std::vector<int>> entries(problem.tasks.size());
  std::vector<double> load(problem.network().nics.size(), 0.0);
  for (const int i : largest_first(problem.tasks))
    for (const Site& site : problem.sites(i).wanting) {
      const auto ends = [&](const Door& door) {
        return (load[at(door.nic)] + static_cast<double>(problem.task(i).bytes)) /
               problem.network().nics[at(door.nic)].bytes_per_s;
      };
      const Door& door = *std::min_element(site.doors.begin(), site.doors.end(),
                                           [&](const Door& a, const Door& b) { return ends(a) < ends(b); });
      load[at(door.nic)] += static_cast<double>(problem.task(i).bytes);
      entries[at(i)].push_back(door.rank);
    }
  return entries;
}

std::vector<Slice> choose_balance(const Problem& problem) {
  const std::vector<std::vector<int>> entries = balanced_entries(problem);
  std::vector<double> load(problem.network().nics.size(), 0.0);
  std::vector<Slice> pieces(problem.tasks.size());
  for (const int i : largest_first(problem.tasks)) {
    const Sites& sites = problem.sites(i);
    const double bytes = static_cast<double>(problem.task(i).bytes) * copies_sent(problem.strategy, sites);
    const Door* best = nullptr;
    double best_ends = 0;
    for (const Site& site : sites.holding)
      for (const Door& door : site.doors) {
        if (!std::binary_search(site.holders.begin(), site.holders.end(), door.rank)) continue;
        const double ends = (load[at(door.nic)] + bytes) / problem.network().nics[at(door.nic)].bytes_per_s;
        if (!best || ends < best_ends) best = &door, best_ends = ends;
      }
    if (!sites.wanting.empty()) load[at(best->nic)] += bytes;
    pieces[at(i)] = chain(problem.task(i), i, sites, problem.network(), best->rank, entries[at(i)]);
  }
  return pieces;
}

}  // namespace weft
