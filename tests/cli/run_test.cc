// `weft run`, and what is left of ranks that are interrupted or killed: nothing.
#include <unistd.h>

#include <csignal>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

using Json = nlohmann::json;

TEST(Cli, RunPassesExitCodesOn) {
  EXPECT_EQ(weft({"run", "-n", "3", "--", "true"}).code, 0);
  EXPECT_EQ(weft({"run", "-n", "3", "--threads", "2", "--", "sh", "-c", "test $WEFT_SIZE-$WEFT_THREADS = 3-2"}).code,
            0);
  EXPECT_EQ(weft({"run", "-n", "2", "--", "sh", "-c", "exit 2"}).code, 2);
  const Ended failed = weft({"run", "-n", "2", "--", "sh", "-c", "test $WEFT_RANK = 0 || exit 7"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_EQ(failed.err, "weft: rank 1 of 2 failed: exited with code 7\n");
  const Ended killed = weft({"run", "-n", "2", "--json", "--", "sh", "-c", "test $WEFT_RANK = 0 || kill -9 $$"});
  EXPECT_EQ(killed.code, 1);
  EXPECT_EQ(Json::parse(killed.out, nullptr, false)["first_failed"], 1) << killed.out;
}

// A refusal that one rank finds alone, and rank 0 never: the launcher says it.
TEST(Cli, ARefusalOfAnyRankIsSaidOnce) {
  const std::string script =
      fmt::format("test $WEFT_RANK = 0 && exec sleep 60; exec {} info --no-such-flag", WEFT_BINARY);
  const Ended ended = weft({"run", "-n", "3", "--", "sh", "-c", script});
  EXPECT_EQ(ended.code, 2);
  const std::size_t first = ended.err.find("--no-such-flag");
  EXPECT_NE(first, std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("--no-such-flag", first + 1), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("exited with code 2"), std::string::npos) << ended.err;
}

// The ranks of a long benchmark, once all of them are there.
std::vector<pid_t> ranks_of(const Running& running, std::size_t count) {
  std::vector<pid_t> ranks;
  for (int tries = 0; tries < 1000 && ranks.size() < count; ++tries) {
    usleep(10'000);
    ranks = children_of(running.pid);
  }
  usleep(200'000);
  return ranks;
}

const std::vector<std::string> kLong{"bench", "gemm-rs", "--ranks", "3", "--rounds", "100000"};

TEST(Cli, InterruptedBenchLeavesNoProcess) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Running running = start_weft(kLong);
    const auto ranks = ranks_of(running, 3);
    ASSERT_EQ(ranks.size(), 3u);
    kill(running.pid, signal);
    const Ended ended = wait_for(running);
    EXPECT_EQ(ended.code, 1);
    EXPECT_NE(ended.err.find("interrupted"), std::string::npos) << ended.err;
    for (const pid_t rank : ranks) EXPECT_FALSE(alive(rank));
  }
}

TEST(Cli, KilledRankEndsTheBenchAndIsNamed) {
  const Running running = start_weft(kLong);
  const auto ranks = ranks_of(running, 3);
  ASSERT_EQ(ranks.size(), 3u);
  kill(ranks[1], SIGKILL);
  const Ended ended = wait_for(running);
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.out, "");
  EXPECT_NE(ended.err.find("failed: killed by signal 9"), std::string::npos) << ended.err;
  for (const pid_t rank : ranks) EXPECT_FALSE(alive(rank));
}

}  // namespace
}  // namespace weft::testing
