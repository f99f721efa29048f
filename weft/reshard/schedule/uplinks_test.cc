// Uplinks carry several jobs at once, but never more than their rate: checked on a list of what was reserved.
#include "weft/reshard/schedule/uplinks.h"

#include <limits>

#include <gtest/gtest.h>

#include "weft/reshard/cases_test.h"

namespace weft {
namespace {

// Two racks of a host of one rank each, with NICs of 8 bytes a second and uplinks of `rate`.
Network two_racks(double rate) {
  Network network = one_nic_a_host(2, 1, {8, 0}, {1e9, 0});
  network.rack_of = {0, 1}, network.uplink = {rate, rate};
  return network;
}

// So many bytes by way of the uplink of rack 0, for so many seconds.
Job job_of(const Resources& resources, double bytes, double seconds) {
  Job job;
  job.uses = {{resources.up(0), bytes}};
  job.seconds = seconds;
  return job;
}

TEST(Uplinks, JobsShareOneUntilItIsFull) {
  const Network network = two_racks(10);
  const Resources resources(network);
  Uplinks uplinks(resources);
  EXPECT_EQ(uplinks.reserve(job_of(resources, 24, 4), 0), 0) << "6 a second";
  EXPECT_EQ(uplinks.reserve(job_of(resources, 8, 2), 0), 0) << "4 more, for half of the time";
  EXPECT_EQ(uplinks.reserve(job_of(resources, 8, 2), 0), 2) << "there is room behind the second";
  EXPECT_EQ(uplinks.reserve(job_of(resources, 10, 1), 0), 4) << "and all of it behind the first";
  EXPECT_EQ(uplinks.reserve(job_of(resources, 10, 1), 7), 7);
  EXPECT_EQ(uplinks.reserve(job_of(resources, 20, 2), 4), 5) << "between the two";
}

TEST(Uplinks, LookingTakesNothing) {
  const Network network = two_racks(10);
  const Resources resources(network);
  Uplinks uplinks(resources);
  const Job job = job_of(resources, 10, 1);
  EXPECT_EQ(uplinks.first_room(job, 0), 0);
  EXPECT_EQ(uplinks.first_room(job, 0), 0);
  EXPECT_EQ(uplinks.reserve(job, 0), 0);
  EXPECT_EQ(uplinks.first_room(job, 0), 1);
}

TEST(Uplinks, OneWithoutARateIsNeverInTheWay) {
  const Network network = two_racks(0);
  const Resources resources(network);
  ASSERT_EQ(resources.rate(resources.up(0)), std::numeric_limits<double>::infinity());
  Uplinks uplinks(resources);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(uplinks.reserve(job_of(resources, 1e9, 1), 0), 0);
}

TEST(Uplinks, NicsAreNotTheirBusiness) {
  const Network network = two_racks(10);
  const Resources resources(network);
  Uplinks uplinks(resources);
  Job job = job_of(resources, 1, 1);
  job.uses = {{resources.out(0), 1000}};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(uplinks.reserve(job, 0), 0);
}

// The obvious version: the rate in use is the sum over the jobs that run then, and a job that could begin earlier would
// do so at the begin it asked for or at the end of another.
struct Reserved {
  double begin, end, rate;
};
double in_use(const std::vector<Reserved>& all, double time) {
  double sum = 0;
  for (const Reserved& one : all)
    if (one.begin <= time && time < one.end) sum += one.rate;
  return sum;
}
bool fits(const std::vector<Reserved>& all, const Reserved& one, double most) {
  std::vector<double> times{one.begin};
  for (const Reserved& other : all)
    if (other.begin > one.begin && other.begin < one.end) times.push_back(other.begin);
  for (const double time : times)
    if (in_use(all, time) + one.rate > most * (1 + 1e-9)) return false;
  return true;
}

TEST(Uplinks, JobsBeginAsSoonAsThereIsRoomForAllOfThem) {
  Random random(17);
  for (int round = 0; round < 200; ++round) {
    const Network network = two_racks(16);
    const Resources resources(network);
    Uplinks uplinks(resources);
    std::vector<Reserved> all;
    for (int i = 0; i < 20; ++i) {
      // Powers of two, so that no sum is rounded.
      const double seconds = 1 << pick(random, 0, 3), rate = 1 << pick(random, 0, 4), asked = pick(random, 0, 20);
      const double begin = uplinks.reserve(job_of(resources, rate * seconds, seconds), asked);
      ASSERT_GE(begin, asked);
      ASSERT_TRUE(fits(all, {begin, begin + seconds, rate}, 16)) << "round " << round << ", job " << i;
      std::vector<double> earlier{asked};
      for (const Reserved& one : all) earlier.push_back(one.end);
      for (const double time : earlier) {
        if (time < asked || time >= begin) continue;
        ASSERT_FALSE(fits(all, {time, time + seconds, rate}, 16)) << "could have begun at " << time;
      }
      all.push_back({begin, begin + seconds, rate});
    }
  }
}

}  // namespace
}  // namespace weft
