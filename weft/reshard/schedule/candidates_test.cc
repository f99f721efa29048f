// What searches choose from: every sender of every task that crosses hosts, and only those.
#include "weft/reshard/schedule/candidates.h"

#include <set>

#include <gtest/gtest.h>

#include "weft/reshard/schedule/searched_test.h"

namespace weft {
namespace {

TEST(Candidates, EverySenderOfEveryCrossingTaskIsOne) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    const Searched searched(random_tangle(seed, false));
    const Candidates found = candidates(searched.set);
    ASSERT_EQ(found.of.size(), found.tasks.size());
    ASSERT_EQ(found.least.size(), found.tasks.size());
    std::set<int> crossing;
    for (std::size_t i = 0; i < found.tasks.size(); ++i) {
      const int task = found.tasks[i];
      crossing.insert(task);
      std::set<int> roots;
      for (const Candidate& candidate : found.of[i]) {
        EXPECT_EQ(candidate.slice.task, task);
        EXPECT_GT(candidate.seconds, 0);
        for (const Use& use : candidate.uses) EXPECT_TRUE(searched.resources.is_nic(use.resource));
        roots.insert(candidate.slice.outlets.at(0).rank);
      }
      EXPECT_EQ(roots.size(), searched.set.sites(task).senders.size()) << "one per door";
    }
    for (int i = 0; i < searched.set.size(); ++i)
      EXPECT_EQ(crossing.contains(i), !searched.set.sites(i).wanting.empty()) << "task " << i;
  }
}

// What is left to do at the least is at most what any candidate does.
TEST(Candidates, TheLeastIsALowerBoundOfEach) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    const Searched searched(random_tangle(seed, false));
    const Candidates found = candidates(searched.set);
    for (std::size_t i = 0; i < found.of.size(); ++i)
      for (const Use& least : found.least[i])
        for (const Candidate& candidate : found.of[i]) {
          const bool uses = std::any_of(candidate.uses.begin(), candidate.uses.end(),
                                        [&](const Use& use) { return use.resource == least.resource; });
          EXPECT_TRUE(uses);
          EXPECT_LE(least.bytes, candidate.seconds);
        }
  }
}

// Tensors of several layers move between the same ranks: tasks of one size among them are twins.
TEST(Candidates, TwinsHaveTheSameSitesAndBytes) {
  int twins = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    Instance instance = random_case(seed);
    instance.reshard.transfers.resize(3, instance.reshard.transfers[0]);
    const Searched searched(instance);
    const Candidates found = candidates(searched.set);
    for (int i = 0; i < int_size(found.tasks); ++i) {
      const int before = found.twin_before[at(i)];
      ASSERT_LT(before, i);
      if (before < 0) continue;
      ++twins;
      const int a = found.tasks[at(before)], b = found.tasks[at(i)];
      EXPECT_EQ(searched.table.id(a), searched.table.id(b));
      EXPECT_EQ(searched.all[at(a)].bytes, searched.all[at(b)].bytes);
    }
  }
  EXPECT_GT(twins, 10);
}

TEST(Candidates, OneBeginsWhenAllItsNicsAreFree) {
  Candidate candidate;
  candidate.uses = {{0, 1}, {3, 1}};
  EXPECT_EQ(candidate.begin_s({1, 9, 9, 4}), 4);
  EXPECT_EQ(candidate.begin_s({6, 9, 9, 4}), 6);
  candidate.uses.clear();
  EXPECT_EQ(candidate.begin_s({6, 9, 9, 4}), 0);
}

// Whatever is searched, each task is there once: those that cross in the order found, the others behind.
TEST(Candidates, SlicesHoldEveryTaskOnce) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Searched searched(random_tangle(seed, false));
    const Candidates found = candidates(searched.set);
    std::vector<const Candidate*> chosen;
    for (auto all = found.of.rbegin(); all != found.of.rend(); ++all) chosen.push_back(&all->back());
    const std::vector<Slice> slices = slices_of(searched.set, chosen);
    ASSERT_EQ(slices.size(), searched.all.size());
    std::set<int> seen;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      seen.insert(slices[i].task);
      EXPECT_EQ(slices[i].box, searched.all[at(slices[i].task)].box);
      EXPECT_EQ(slices[i].outlets.empty(), i >= chosen.size());
    }
    EXPECT_EQ(seen.size(), slices.size());
  }
}

}  // namespace
}  // namespace weft
