#include "weft/reshard/schedule/exact.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/reshard/cases_test.h"
#include "weft/reshard/schedule/candidates.h"
#include "weft/reshard/schedule/timing.h"

namespace weft {
namespace {

// Every order of the tasks with every sender for each, timed by run_in_order.
double shortest_by_trying_all(const TaskSet& set) {
  const Candidates all = candidates(set);
  std::vector<std::size_t> order(all.tasks.size());
  std::iota(order.begin(), order.end(), 0);
  double shortest = all.tasks.empty() ? 0 : 1e300;
  do {
    std::vector<std::size_t> sender(order.size(), 0);
    while (!order.empty()) {
      std::vector<Slice> slices;
      for (const std::size_t t : order) slices.push_back(all.of[t][sender[t]].slice);
      std::vector<Job> jobs = jobs_of(set, slices);
      shortest = std::min(shortest, run_in_order(jobs, set.resources));
      std::size_t t = 0;
      while (t < sender.size() && ++sender[t] == all.of[t].size()) sender[t++] = 0;
      if (t == sender.size()) break;
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return shortest;
}

TEST(Exact, AgreesWithTryingEverything) {
  int tried = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Instance instance = seed % 2 ? random_case(seed) : random_tangle(seed, false);
    const std::vector<Task> all = tasks(instance.reshard);
    if (all.size() > 4) continue;
    const SiteTable table(all, instance.network);
    const Resources resources(instance.network);
    const TaskSet set{all, table, resources, Strategy::broadcast};
    const Exact exact = exact_search(set, 1'000'000);
    ASSERT_TRUE(exact.is_proved);
    EXPECT_NEAR(exact.makespan_s, shortest_by_trying_all(set), 1e-12) << "seed " << seed;
    ++tried;
  }
  EXPECT_GT(tried, 50);
}

TEST(Exact, NoChoiceOfWholeTasksIsShorterAndOursIsNotLonger) {
  int tried = 0, dfs_found = 0, beaten = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = random_case(seed);
    const std::vector<Task> all = tasks(instance.reshard);
    if (all.size() > num(kMostExactTasks)) continue;
    const SiteTable table(all, instance.network);
    const Resources resources(instance.network);
    const Exact exact = exact_search({all, table, resources, Strategy::broadcast}, 5'000'000);
    ASSERT_TRUE(exact.is_proved);
    for (const Choice choice : {Choice::naive, Choice::balance, Choice::dfs, Choice::greedy})
      EXPECT_GE(schedule(all, instance.network, {.choice = choice}).makespan_s, exact.makespan_s * (1 - 1e-9));
    dfs_found += schedule(all, instance.network, {.choice = Choice::dfs}).makespan_s <= exact.makespan_s * (1 + 1e-9);
    const Schedule ours = schedule(all, instance.network);
    EXPECT_LE(ours.makespan_s, exact.makespan_s * (1 + 1e-9)) << ours.why;
    beaten += ours.makespan_s < exact.makespan_s * (1 - 1e-9);
    ++tried;
  }
  EXPECT_GT(tried, 100);
  EXPECT_EQ(dfs_found, tried);  // its budget covers so few tasks
  EXPECT_GT(beaten, 0);         // cutting pays somewhere
}

TEST(Exact, CuttingBeatsEveryScheduleOfWholeTasks) {
  // Three equal tasks that two hosts hold: whole ones take 2, cut ones 3/2.
  const Mesh source = hosts_by_devices(2, 1), destination = hosts_by_devices(3, 1);
  const Reshard reshard = one_tensor({300, 4}, Dtype::f32, source, "R,R", destination, "S0,R");
  const Network network = one_nic_a_host(hosts_side_by_side(source, destination), {1600, 0}, {1e9, 0});
  const std::vector<Task> all = tasks(reshard);
  const SiteTable table(all, network);
  const Resources resources(network);
  EXPECT_NEAR(exact_search({all, table, resources, Strategy::broadcast}, 10'000).makespan_s, 2, 1e-9);
  const Schedule ours = schedule(all, network);
  EXPECT_NEAR(ours.makespan_s, 1.5, 1e-9);
  EXPECT_TRUE(ours.optimal);
  EXPECT_TRUE(problems(ours, all, network).empty());
}

}  // namespace
}  // namespace weft
