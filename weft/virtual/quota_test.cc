// Quotas of virtual hosts, in the machine's own cgroups.
#include "weft/virtual/quota.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include "weft/virtual/made_hosts_test.h"

namespace weft::virtual_hosts {
namespace {

class Quotas : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_quotas_because(); geteuid() != 0 || !why.empty())
      GTEST_SKIP() << "no quotas here: " << (why.empty() ? "they need root" : why);
    try {
      make_quota(name_, 0.25);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override {
    if (geteuid() == 0 && no_quotas_because().empty()) {
      EXPECT_TRUE(remove_quota(name_));
    }
  }

  // Quota and period, in microseconds, as the kernel has them.
  std::pair<double, double> values() const {
    for (const char* root :
         {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      const std::string folder = fmt::format("{}/{}", root, name_);
      double quota = 0, period = 0;
      if (std::ifstream(folder + "/cpu.max") >> quota >> period) return {quota, period};
      if (std::ifstream(folder + "/cpu.cfs_quota_us") >> quota &&
          std::ifstream(folder + "/cpu.cfs_period_us") >> period)
        return {quota, period};
    }
    return {};
  }

  const std::string name_ = fmt::format("weft-quota{}-0", getpid());
};

TEST_F(Quotas, TheKernelHasTheShareInShortPeriods) {
  const auto [quota, period] = values();
  ASSERT_GT(period, 0);
  EXPECT_DOUBLE_EQ(quota / period, 0.25);
  EXPECT_LE(period, 20'000) << "a host stands still for a short time only";
  make_quota(name_, 0.01);  // the kernel takes no quota below a millisecond
  const auto small = values();
  EXPECT_NEAR(small.first / small.second, 0.01, 1e-4);
  EXPECT_GE(small.first, 1000);
  make_quota(name_, 2.5);
  EXPECT_DOUBLE_EQ(values().first / values().second, 2.5);
}

TEST_F(Quotas, WhoJoinsIsListedAndHoldsItOpen) {
  EXPECT_TRUE(processes_under_quota(name_).empty());
  int joined[2], leave[2];
  ASSERT_EQ(pipe(joined), 0);
  ASSERT_EQ(pipe(leave), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(leave[1]);
    char byte = 0;
    try {
      join_quota(name_);
      byte = 1;
    } catch (const Error&) {
    }
    const bool told = write(joined[1], &byte, 1) == 1;
    _exit(told && read(leave[0], &byte, 1) == 0 ? 0 : 1);
  }
  char good = 0;
  ASSERT_EQ(read(joined[0], &good, 1), 1);
  EXPECT_EQ(good, 1);
  EXPECT_EQ(processes_under_quota(name_), std::vector<pid_t>{child});
  EXPECT_FALSE(remove_quota(name_)) << "something is in it";
  for (const int fd : {leave[0], leave[1], joined[0], joined[1]}) close(fd);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Quotas, AreFoundByNameAndRemovedOnce) {
  const auto all = find_quotas();
  EXPECT_NE(std::find(all.begin(), all.end(), name_), all.end());
  bool removed = false;
  for (int i = 0; i < 200 && !(removed = remove_quota(name_)); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(removed);
  const auto left = find_quotas();
  EXPECT_EQ(std::find(left.begin(), left.end(), name_), left.end());
  EXPECT_TRUE(remove_quota(name_)) << "there is none: nothing to do";
  EXPECT_NO_THROW(join_quota(name_)) << "a host without a quota has nothing to join";
}

}  // namespace
}  // namespace weft::virtual_hosts
