// Who sends and in which order: every choice sends every task once, from a rank that holds it, and none is worse than
// what it begins with.
#include "weft/reshard/schedule/choose.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "weft/reshard/schedule/searched_test.h"
#include "weft/reshard/schedule/timing.h"

namespace weft {
namespace {

constexpr Strategy kSending[] = {Strategy::send_recv, Strategy::local_allgather, Strategy::broadcast};

double makespan_of(const Searched& searched, const std::vector<Slice>& slices) {
  std::vector<Job> jobs = jobs_of(searched.set, slices);
  return run_in_order(jobs, searched.resources);
}

void expect_all_tasks(const Searched& searched, const std::vector<Slice>& slices, const char* who) {
  std::set<int> seen;
  for (const Slice& slice : slices) {
    EXPECT_TRUE(seen.insert(slice.task).second) << who << ": task " << slice.task << " twice";
    const Task& task = searched.all[at(slice.task)];
    EXPECT_EQ(slice.box, task.box) << who;
    const Sites& sites = searched.set.sites(slice.task);
    if (sites.wanting.empty()) continue;
    ASSERT_EQ(slice.entry.size(), sites.wanting.size()) << who;
    for (std::size_t i = 0; i < slice.entry.size(); ++i) {
      const std::vector<int>& there = sites.wanting[i].receivers;
      EXPECT_TRUE(std::binary_search(there.begin(), there.end(), slice.entry[i])) << who;
    }
    EXPECT_TRUE(std::binary_search(task.senders.begin(), task.senders.end(), slice.outlets.at(0).rank)) << who;
  }
  EXPECT_EQ(seen.size(), searched.all.size()) << who;
}

TEST(Choose, EveryTaskIsSentOnceByARankThatHoldsIt) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Searched searched(seed % 2 ? random_case(seed) : random_tangle(seed, false), kSending[seed % 3]);
    expect_all_tasks(searched, choose_naive(searched.set), "naive");
    expect_all_tasks(searched, choose_balance(searched.set), "balance");
    expect_all_tasks(searched, choose_dfs(searched.set, 2000), "dfs");
    expect_all_tasks(searched, choose_greedy(searched.set, 2000, seed), "greedy");
  }
}

TEST(Choose, SearchingIsNeverWorseThanBalance) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Searched searched(random_tangle(seed, false));
    const double balance = makespan_of(searched, choose_balance(searched.set));
    const double found = makespan_of(searched, choose_dfs(searched.set, 20'000));
    EXPECT_LE(found, balance * (1 + 1e-9));
    EXPECT_LE(makespan_of(searched, choose_dfs(searched.set, 0)), balance * (1 + 1e-9)) << "without a budget";
    better += found < balance * (1 - 1e-9);
  }
  EXPECT_GT(better, 3) << "and now and then better";
}

TEST(Choose, TheSameSeedGivesTheSameChoice) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Searched searched(random_tangle(seed, false));
    const auto once = choose_greedy(searched.set, 5000, 9), again = choose_greedy(searched.set, 5000, 9);
    ASSERT_EQ(once.size(), again.size());
    for (std::size_t i = 0; i < once.size(); ++i) {
      EXPECT_EQ(once[i].task, again[i].task);
      EXPECT_EQ(once[i].entry, again[i].entry);
    }
  }
}

TEST(Choose, LargestFirstKeepsTheOrderOfEqualOnes) {
  std::vector<Task> tasks(5);
  const std::int64_t bytes[] = {4, 9, 4, 1, 9};
  for (std::size_t i = 0; i < 5; ++i) tasks[i].bytes = bytes[i];
  EXPECT_EQ(largest_first(tasks), (std::vector<int>{1, 4, 0, 2, 3}));
  EXPECT_TRUE(largest_first({}).empty());
}

// What a strategy asks of the sender's NIC, counted in the jobs that it makes.
TEST(Choose, CopiesAreThoseOfTheJobs) {
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (const Strategy strategy : kSending) {
      SCOPED_TRACE(seed);
      const Searched searched(random_case(seed), strategy);
      for (int i = 0; i < searched.set.size(); ++i) {
        const Sites& sites = searched.set.sites(i);
        if (sites.wanting.empty()) continue;
        const Slice slice = searched.set.whole(i, searched.all[at(i)].senders[0], first_entries(sites));
        const int out = searched.resources.out(searched.instance.network.nic_of[at(slice.outlets[0].rank)]);
        double bytes = 0;
        for (const Job& job : jobs_of(searched.set, {slice}))
          for (const Use& use : job.uses) bytes += use.resource == out ? use.bytes : 0;
        const double copies = bytes / static_cast<double>(searched.all[at(i)].bytes);
        // A box that parts do not divide goes by send_recv: one copy per receiver, not per host.
        EXPECT_GE(copies, copies_sent(strategy, sites) * (1 - 1e-9)) << to_string(strategy);
        if (strategy != Strategy::local_allgather) {
          EXPECT_NEAR(copies, copies_sent(strategy, sites), 1e-9) << to_string(strategy);
        }
      }
    }
}

// Two NICs on the receiving host, two boxes of one size: each enters by another.
TEST(Choose, EntriesAreSpreadOverTheNics) {
  const Mesh source = hosts_by_devices(1, 2), destination = hosts_by_devices(1, 2);
  Instance instance;
  instance.reshard = one_tensor({8}, Dtype::f32, source, "S1", destination, "R");
  instance.network = one_nic_a_host(hosts_side_by_side(source, destination), {100, 0}, {1e9, 0});
  instance.network.nics.push_back({1, 100});
  instance.network.nic_of[3] = 2;
  const Searched searched(instance);
  ASSERT_EQ(searched.set.size(), 2);
  const auto entries = balanced_entries(searched.set);
  EXPECT_NE(entries[0], entries[1]);
}

}  // namespace
}  // namespace weft
