// The launcher: exit codes, interruption, and that nothing is left behind.
#include "weft/transport/join/launch.h"

#include <sys/wait.h>

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/local/process_ranks_test.h"

namespace weft::transport_test {
namespace {

using Launch = ProcessRanks;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST_F(Launch, InterruptedLauncherLeavesNothing) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t launcher = start_launcher();
    for (int rank = 0; rank < 3; ++rank) ASSERT_GT(pid_note("up" + std::to_string(rank)), 0);
    EXPECT_EQ(processes_left(), 4);
    const auto start = Clock::now();
    kill(launcher, signal);
    int status = 0;
    waitpid(launcher, &status, 0);
    EXPECT_LT(Clock::now() - start, 5s);  // 1 s of patience: these ranks ignore SIGTERM
    EXPECT_EQ(processes_left(), 0);
    EXPECT_EQ(note("interrupted"), "yes");
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
}

TEST_F(Launch, KilledLauncherTakesItsRanksWithIt) {
  const pid_t launcher = start_launcher();
  for (int rank = 0; rank < 3; ++rank) ASSERT_GT(pid_note("up" + std::to_string(rank)), 0);
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(all_gone_within(2s));
}

TEST_F(Launch, RankBehindAScriptWorks) { EXPECT_EQ(launch(scripts(3, "share_segments")).exit_code(), 0); }

TEST_F(Launch, RankBehindAScriptDiesWithTheLauncher) {
  const pid_t launcher = start_launcher("launcher_of_scripts");
  for (int rank = 0; rank < 3; ++rank) ASSERT_GT(pid_note("up" + std::to_string(rank)), 0);
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(all_gone_within(2s));
}

TEST_F(Launch, RankBehindAScriptHearsTheInterrupt) {
  const pid_t launcher = start_launcher("launcher_of_scripts");
  for (int rank = 0; rank < 3; ++rank) ASSERT_GT(pid_note("up" + std::to_string(rank)), 0);
  kill(launcher, SIGINT);
  waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(all_gone_within(1s));
}

// Rank 1 ends first and has a sentence of its own; rank 0, which would speak of nobody's errors, is stopped.
TEST_F(Launch, ASentenceOutlivesTheRankThatLeavesIt) {
  LaunchResult result = launch(ranks(3, "words_of_one"));
  EXPECT_EQ(result.exit_code(), 2);
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_EQ(result.sentence(), "rank 1 has had enough; give it less");
  EXPECT_EQ(result.words[0], "");
  result = launch(ranks(2, "words_of_all"));
  EXPECT_EQ(result.exit_code(), 2);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(result.words[num(rank)].substr(0, 7), fmt::format("rank {}:", rank));
  EXPECT_EQ(result.sentence().size(), 4000u) << "a long one is cut";
  EXPECT_FALSE(words_are_heard());
  EXPECT_FALSE(leave_words("nobody listens")) << "this is no rank";
}

TEST_F(Launch, ExitCodesOfProgramsThatKnowNothingOfWeft) {
  LaunchOptions options{.num_ranks = 3, .argv = {"sh", "-c", "exit 0"}};
  EXPECT_EQ(launch(options).exit_code(), 0);
  options.argv = {"sh", "-c", "test $WEFT_RANK = 1 && exit 2; exec sleep 60"};
  const auto start = Clock::now();
  const LaunchResult result = launch(options);
  EXPECT_EQ(result.exit_code(), 2);
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_EQ(result.ranks[0].signal, SIGTERM);
  EXPECT_GT(Clock::now() - start, 1900ms);
  EXPECT_LT(Clock::now() - start, 6s);
  options.argv = {"sh", "-c", "test $WEFT_RANK-$WEFT_SIZE-$KITE = 0-1-red"};
  options.num_ranks = 1;
  options.env = {{"KITE", "red"}};
  EXPECT_EQ(launch(options).exit_code(), 0);
}

TEST_F(Launch, BadLaunchesAreRefused) {
  EXPECT_THROW(launch({.num_ranks = 2, .argv = {"/no/such/program"}}), Error);
  EXPECT_THROW(launch({.num_ranks = 0, .argv = {"true"}}), Error);
  EXPECT_THROW(launch({.num_ranks = 1000, .argv = {"true"}}), Error);
  EXPECT_THROW(launch({.num_ranks = 1}), Error);
}

}  // namespace
}  // namespace weft::transport_test
