// Who sends each task, and in which order: the choices that never cut a task. Each gives one slice per task, in the
// order in which they should run.
#pragma once

#include <vector>

#include "weft/base/index.h"
#include "weft/reshard/schedule/resources.h"
#include "weft/reshard/schedule/slices.h"

namespace weft {

struct TaskSet {
  const std::vector<Task>& tasks;
  const SiteTable& table;
  const Resources& resources;
  Strategy strategy = Strategy::broadcast;

  const Network& network() const { return resources.network(); }
  const Task& task(int i) const { return tasks[at(i)]; }
  const Sites& sites(int i) const { return table.of(i); }
  int size() const { return int_size(tasks); }
  // The whole of task i from `root`, in a chain of hosts that it enters by `entry`.
  Slice whole(int i, int root, const std::vector<int>& entry) const {
    return chain(task(i), i, sites(i), network(), root, entry);
  }
};

std::vector<Slice> choose_naive(const TaskSet& set);
std::vector<Slice> choose_balance(const TaskSet& set);

// What a search considers at a node is a (task, sender); `node_budget` bounds how many it looks at. With none left it
// gives the best so far, at worst that of `balance`.
std::vector<Slice> choose_dfs(const TaskSet& set, std::int64_t node_budget);

// Steps of tasks that share no host; each the best of many random ones (100; fewer where tasks are very many).
std::vector<Slice> choose_greedy(const TaskSet& set, std::int64_t node_budget, std::uint64_t seed);

// By task, for choices that do not look at entries themselves: by the least loaded NIC of every host, largest task
// first.
std::vector<std::vector<int>> balanced_entries(const TaskSet& set);

// Times a slice's bytes, through the NIC of the rank that sends: what the strategy asks of it.
int copies_sent(Strategy strategy, const Sites& sites);

std::vector<Job> jobs_of(const TaskSet& set, const std::vector<Slice>& slices);

std::vector<int> largest_first(const std::vector<Task>& tasks);

}  // namespace weft
