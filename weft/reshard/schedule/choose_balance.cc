// The two simplest choices, and what others share with them.
#include <algorithm>
#include <numeric>

#include "weft/base/index.h"
#include "weft/reshard/schedule/choose.h"

namespace weft {

namespace {

// The door whose NIC, after what it carries already, has these bytes through first.
const Door& first_to_end(const std::vector<Door>& doors, const std::vector<double>& load, double bytes,
                         const Network& network) {
  const auto ends = [&](const Door& door) {
    return (load[at(door.nic)] + bytes) / network.nics[at(door.nic)].bytes_per_s;
  };
  return *std::min_element(doors.begin(), doors.end(), [&](const Door& a, const Door& b) { return ends(a) < ends(b); });
}

}  // namespace

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

std::vector<Job> jobs_of(const TaskSet& set, const std::vector<Slice>& slices) {
  std::vector<Job> jobs;
  for (const Slice& slice : slices)
    add_jobs(set.strategy, slice, set.task(slice.task), set.sites(slice.task), set.resources, jobs);
  return jobs;
}

std::vector<Slice> choose_naive(const TaskSet& set) {
  std::vector<Slice> slices;
  for (int i = 0; i < set.size(); ++i)
    slices.push_back(set.whole(i, set.task(i).senders.front(), first_entries(set.sites(i))));
  return slices;
}

std::vector<std::vector<int>> balanced_entries(const TaskSet& set) {
  std::vector<std::vector<int>> entries(set.tasks.size());
  std::vector<double> load(set.network().nics.size(), 0.0);
  for (const int i : largest_first(set.tasks))
    for (const Site& site : set.sites(i).wanting) {
      const double bytes = set.task(i).bytes;
      const Door& door = first_to_end(site.doors, load, bytes, set.network());
      load[at(door.nic)] += bytes;
      entries[at(i)].push_back(door.rank);
    }
  return entries;
}

std::vector<Slice> choose_balance(const TaskSet& set) {
  const std::vector<std::vector<int>> entries = balanced_entries(set);
  std::vector<double> load(set.network().nics.size(), 0.0);
  std::vector<Slice> slices(set.tasks.size());
  for (const int i : largest_first(set.tasks)) {
    const Sites& sites = set.sites(i);
    const double bytes = static_cast<double>(set.task(i).bytes) * copies_sent(set.strategy, sites);
    const Door& best = first_to_end(sites.senders, load, bytes, set.network());
    if (!sites.wanting.empty()) load[at(best.nic)] += bytes;
    slices[at(i)] = set.whole(i, best.rank, entries[at(i)]);
  }
  return slices;
}

}  // namespace weft
