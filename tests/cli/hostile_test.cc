// Plan files by people who mean no good: each is refused with a sentence and exit code 2, in seconds and little memory.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

#ifdef WEFT_SANITIZED
constexpr double kSlower = 20;
#else
constexpr double kSlower = 1;
#endif

// What a refusal may take of this process's children: the largest so far is all that the system tells.
void expect_refused(const std::string& path, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const Ended ended = weft({"plan", "--load", path});
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(ended.code, 2) << path << ended.out << ended.err;
  EXPECT_TRUE(ended.out.find("refused") != std::string::npos || ended.err.rfind("weft: ", 0) == 0) << path << ended.err;
  EXPECT_LT(took, seconds * kSlower) << path;
#ifndef WEFT_SANITIZED
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  EXPECT_LT(used.ru_maxrss, 1 << 20) << path;  // KB
#endif
}

TEST(HostileFile, PlansThatWereOnceProvedAreRefused) {
  std::vector<std::string> paths;
  for (const auto& file : std::filesystem::directory_iterator(WEFT_SOURCE "/tests/plans/refused"))
    paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  EXPECT_FALSE(paths.empty());
  for (const std::string& path : paths) expect_refused(path, 2);
}

}  // namespace
}  // namespace weft::testing
