// Quotas of control groups, read from folders that look like those of the kernel.
#include "weft/base/cores.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace weft {
namespace {

class Cores : public testing::Test {
 protected:
  void SetUp() override { root_ = testing::TempDir() + "weft_cores_test_" + std::to_string(getpid()); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST(OwnCores, AreThoseThatThisProcessMayUse) {
  const std::vector<int> cores = own_cores();
  ASSERT_FALSE(cores.empty());
  EXPECT_TRUE(std::is_sorted(cores.begin(), cores.end()));
  EXPECT_LE(usable_cores(), static_cast<double>(cores.size()));
}

TEST_F(Cores, VersionOneQuotaOfTheOwnGroup) {
  write("/proc/self/cgroup", "3:cpuset:/\n1:cpu,cpuacct:/virtual/host\n");
  write("/sys/fs/cgroup/cpu/virtual/host/cpu.cfs_quota_us", "50000\n");
  write("/sys/fs/cgroup/cpu/virtual/host/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 0.5);
}

TEST_F(Cores, VersionTwoQuotaOfAGroupAbove) {
  write("/proc/self/cgroup", "0::/a/b/c\n");
  write("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 1.5);
}

TEST_F(Cores, ContainerSeesItsGroupAsTheMount) {
  write("/proc/self/cgroup", "0::/docker/0123\n");
  write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(cpu_quota(root_), 2);
}

TEST_F(Cores, NoGroupsNoQuota) {
  EXPECT_TRUE(std::isinf(cpu_quota(root_)));
  write("/proc/self/cgroup", "nonsense\n1:cpu:/\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_TRUE(std::isinf(cpu_quota(root_)));
  EXPECT_GT(usable_cores(), 0);
}

}  // namespace
}  // namespace weft
