// When jobs run: NICs one at a time, never idle while a job could run, and no order beats all at once.
#include "weft/reshard/schedule/timing.h"

#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "weft/reshard/cases_test.h"

namespace weft {
namespace {

// `hosts` hosts of one rank, with NICs of a byte a second.
Network slow_hosts(int hosts) { return one_nic_a_host(hosts, 1, {1, 0}, {1e9, 0}); }

// So many bytes from one host to another.
Job send(const Resources& resources, int from, int to, std::int64_t bytes) {
  Job job;
  Chunk chunk;
  chunk.box = whole({bytes}), chunk.bytes = bytes, chunk.root = from, chunk.hops = {{from, to}};
  job.chunks = {chunk};
  job.uses = resources.uses(job.chunks);
  job.seconds = resources.seconds(job.uses);
  return job;
}

double begin_of(const Job& job) { return job.chunks[0].begin_s; }
double end_of(const Job& job) { return job.chunks[0].end_s; }

std::vector<Job> random_jobs(Random& random, const Resources& resources, int hosts) {
  std::vector<Job> jobs;
  for (int i = pick(random, 1, 25); i > 0; --i) {
    const int from = pick(random, 0, hosts - 1), to = (from + pick(random, 1, hosts - 1)) % hosts;
    jobs.push_back(send(resources, from, to, pick(random, 1, 9)));
  }
  return jobs;
}

bool share_a_nic(const Job& a, const Job& b) {
  for (const Use& use : a.uses)
    for (const Use& other : b.uses)
      if (use.resource == other.resource) return true;
  return false;
}

void expect_one_at_a_time(const std::vector<Job>& jobs, double makespan) {
  double last = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_EQ(end_of(jobs[i]) - begin_of(jobs[i]), jobs[i].seconds);
    last = std::max(last, end_of(jobs[i]));
    for (std::size_t j = 0; j < i; ++j)
      if (share_a_nic(jobs[i], jobs[j])) {
        EXPECT_TRUE(end_of(jobs[i]) <= begin_of(jobs[j]) || end_of(jobs[j]) <= begin_of(jobs[i])) << i << " and " << j;
      }
  }
  EXPECT_EQ(last, makespan);
}

// Each begins when the last of those before it that share a NIC has ended.
TEST(ReshardTiming, InOrderEveryJobWaitsForThoseBeforeIt) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const Network network = slow_hosts(4);
    const Resources resources(network);
    std::vector<Job> jobs = random_jobs(random, resources, 4);
    expect_one_at_a_time(jobs, run_in_order(jobs, resources));
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      double begin = 0;
      for (std::size_t j = 0; j < i; ++j)
        if (share_a_nic(jobs[i], jobs[j])) begin = std::max(begin, end_of(jobs[j]));
      EXPECT_EQ(begin_of(jobs[i]), begin);
    }
  }
}

TEST(ReshardTiming, WhenFreeNothingIdlesThatCouldRun) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const Network network = slow_hosts(4);
    const Resources resources(network);
    std::vector<Job> jobs = random_jobs(random, resources, 4);
    std::vector<int> order(jobs.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    expect_one_at_a_time(jobs, run_when_free(jobs, order, resources));
    // A job that begins late is held up at any time before: one that shares a NIC runs then.
    for (const Job& job : jobs)
      for (double time = 0; time < begin_of(job); time += 1) {
        const bool held = std::any_of(jobs.begin(), jobs.end(), [&](const Job& other) {
          return share_a_nic(job, other) && begin_of(other) <= time && time < end_of(other);
        });
        EXPECT_TRUE(held) << "idle at " << time;
      }
  }
}

TEST(ReshardTiming, TheOrderDecidesWhoGoesFirst) {
  const Network network = slow_hosts(2);
  const Resources resources(network);
  std::vector<Job> jobs{send(resources, 0, 1, 3), send(resources, 0, 1, 5)};
  EXPECT_EQ(run_when_free(jobs, {1, 0}, resources), 8);
  EXPECT_EQ(begin_of(jobs[1]), 0);
  EXPECT_EQ(begin_of(jobs[0]), 5);
}

TEST(ReshardTiming, NoOrderBeatsAllAtOnceAndTheBestIsKept) {
  Random random(3);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    const Network network = slow_hosts(5);
    const Resources resources(network);
    std::vector<Job> jobs = random_jobs(random, resources, 5), together = jobs, listed = jobs;
    const double best = run_one_at_a_time(jobs, resources, 0, 7);
    expect_one_at_a_time(jobs, best);
    std::vector<int> order(jobs.size());
    std::iota(order.begin(), order.end(), 0);
    EXPECT_LE(best, run_when_free(listed, order, resources));
    EXPECT_GE(best, run_together(together, resources));
    for (const Job& job : together) EXPECT_EQ(begin_of(job), 0);
  }
}

TEST(ReshardTiming, TogetherTakesAsLongAsTheBusiestNic) {
  const Network network = slow_hosts(3);
  const Resources resources(network);
  std::vector<Job> jobs{send(resources, 0, 1, 3), send(resources, 0, 2, 4), send(resources, 1, 2, 2)};
  EXPECT_EQ(run_together(jobs, resources), 7) << "what host 0 sends";
  for (const Job& job : jobs) EXPECT_EQ(end_of(job), 7);
}

TEST(ReshardTiming, SearchingStopsWhereItIsGoodEnough) {
  Random random(4);
  int better = 0;
  for (int round = 0; round < 100; ++round) {
    const Network network = slow_hosts(4);
    const Resources resources(network);
    std::vector<Job> jobs = random_jobs(random, resources, 4), listed = jobs, searched = jobs;
    std::vector<int> order(jobs.size());
    std::iota(order.begin(), order.end(), 0);
    const double first = run_when_free(listed, order, resources);
    EXPECT_EQ(run_one_at_a_time(jobs, resources, std::numeric_limits<double>::infinity(), 1), first);
    better += run_one_at_a_time(searched, resources, 0, 1) < first;
  }
  EXPECT_GT(better, 5) << "looking further pays now and then";
}

TEST(ReshardTiming, JobsInsideAHostTakeNoTime) {
  const Network network = one_nic_a_host(1, 2, {1, 0}, {1e9, 0});
  const Resources resources(network);
  std::vector<Job> jobs{send(resources, 0, 1, 5)};
  ASSERT_TRUE(jobs[0].uses.empty());
  EXPECT_EQ(run_in_order(jobs, resources), 0);
  EXPECT_EQ(run_one_at_a_time(jobs, resources, 0, 1), 0);
  EXPECT_EQ(run_together(jobs, resources), 0);
  EXPECT_EQ(end_of(jobs[0]), 0);
}

}  // namespace
}  // namespace weft
