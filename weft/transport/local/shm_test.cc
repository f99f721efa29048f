// Ranks as processes: shared segments, signals, and how the failure of one reaches the others.
#include "weft/transport/local/shm.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/transport/local/process_ranks_test.h"

namespace weft::transport_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST_F(ProcessRanks, SegmentsAreShared) {
  const LaunchResult result = launch(ranks(4, "share_segments"));
  EXPECT_EQ(result.exit_code(), 0) << result.reason;
  EXPECT_EQ(result.first_failed, -1);
  EXPECT_FALSE(result.interrupted);
}

TEST_F(ProcessRanks, OneRankNeedsNoOther) { EXPECT_EQ(launch(ranks(1, "share_segments")).exit_code(), 0); }

TEST_F(ProcessRanks, TooMuchMemoryIsRefusedOnEveryRankAlike) {
  EXPECT_EQ(launch(ranks(3, "refuse_memory")).exit_code(), 0);
}

TEST_F(ProcessRanks, EightRanksOnFewCoresMakeProgress) {
  const auto start = Clock::now();
  EXPECT_EQ(launch(ranks(8, "ring_of_signals")).exit_code(), 0);
  EXPECT_LT(Clock::now() - start, 30s);
  RecordProperty("us_per_hop", note("us_per_hop"));
  std::printf("ring of 8: %s us a hop\n", note("us_per_hop").c_str());
}

TEST_F(ProcessRanks, TwoRanksMakeProgress) {
  EXPECT_EQ(launch(ranks(2, "ring_of_signals")).exit_code(), 0);
  std::printf("ring of 2: %s us a hop\n", note("us_per_hop").c_str());
}

TEST_F(ProcessRanks, KilledPeerIsNamedSoon) {
  std::atomic<std::int64_t> killed_at{0};
  std::thread killer([&] {
    const pid_t victim = pid_note("victim");
    if (victim <= 0) return;
    std::this_thread::sleep_for(50ms);  // the others sleep by now
    killed_at = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    kill(victim, SIGKILL);
  });
  const LaunchResult result = launch(ranks(4, "wait_for_the_victim"));
  killer.join();
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_EQ(result.first_failed, 2);
  EXPECT_EQ(result.ranks[2].signal, SIGKILL);
  for (const int rank : {0, 1, 3}) {
    EXPECT_EQ(result.ranks[rank].exit_code, 1);
    ASSERT_TRUE(has_note("seen" + std::to_string(rank)));
    const double ms = (std::stoll(note("seen" + std::to_string(rank))) - killed_at) * 1e-6;
    EXPECT_LT(ms, 2000);
    std::printf("rank %d knew after %.1f ms\n", rank, ms);
  }
}

TEST_F(ProcessRanks, StoppedPeerFallsSilent) {
  std::thread stopper([&] {
    const pid_t victim = pid_note("victim");
    if (victim > 0) kill(victim, SIGSTOP);
  });
  const auto start = Clock::now();
  const LaunchResult result = launch(ranks(3, "watch_the_silence"));
  stopper.join();
  EXPECT_LT(Clock::now() - start, 15s);
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_EQ(result.first_failed, 2) << result.reason;
  EXPECT_EQ(result.ranks[2].signal, SIGKILL) << "a stopped process cannot take SIGTERM";
  EXPECT_TRUE(has_note("seen0"));
  EXPECT_TRUE(has_note("seen1"));
}

TEST_F(ProcessRanks, ErrorOfOneReachesAllWithItsCause) {
  const LaunchResult result = launch(ranks(3, "throw_in_one"));
  EXPECT_EQ(result.exit_code(), 2) << "rank 1 failed first, though others ended before it";
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_EQ(result.reason, "seven is no colour");
  EXPECT_TRUE(has_note("seen0"));
  EXPECT_TRUE(has_note("seen2"));
}

TEST_F(ProcessRanks, LeavingByExceptionIsAFailure) {
  const LaunchResult result = launch(ranks(3, "unwind_in_one"));
  EXPECT_EQ(result.exit_code(), 2);
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_NE(note("error0").find("rank 1"), std::string::npos) << note("error0");
}

TEST_F(ProcessRanks, ExitWithoutLeavingIsAFailure) {
  const LaunchResult result = launch(ranks(3, "exit_without_leaving"));
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_EQ(result.first_failed, 1);
  EXPECT_EQ(result.ranks[1].exit_code, 0);
  EXPECT_NE(note("error2").find("rank 1"), std::string::npos) << note("error2");
}

TEST_F(ProcessRanks, RankThatNeverAttachesIsNamed) {
  const auto start = Clock::now();
  const LaunchResult result = launch(ranks(3, "never_attach_in_one"));
  EXPECT_LT(Clock::now() - start, 10s);
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_NE(note("error0").find("rank 1"), std::string::npos) << note("error0");
}

TEST_F(ProcessRanks, RankThatLeavesEarlyIsNamed) {
  const LaunchResult result = launch(ranks(3, "leave_early_in_one"));
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_NE((note("error0")).find("rank 1"), std::string::npos) << note("error0");
}

TEST_F(ProcessRanks, SecondProcessOfARankIsRefusedAndTheFirstGoesOn) {
  const LaunchResult result = launch(ranks(2, "with_a_twin"));
  EXPECT_EQ(result.exit_code(), 0) << result.reason;
  for (const char* rank : {"0", "1"}) {
    EXPECT_EQ(note(std::string("code") + rank), "2");
    const std::string said = note(std::string("twin") + rank);
    EXPECT_NE(said.find(fmt::format("another process has joined as rank {} already", rank)), std::string::npos) << said;
  }
}

TEST_F(ProcessRanks, BadEnvironmentIsBadInput) {
  EXPECT_FALSE(launched());
  const auto attach_with = [](const char* rank, const char* size, const char* fd) {
    setenv(kRankEnv, rank, 1);
    setenv(kSizeEnv, size, 1);
    setenv(kRendezvousFdEnv, fd, 1);
    Code code = Code::internal;
    try {
      join_launch();
    } catch (const Error& error) {
      code = error.code();
    }
    for (const char* name : {kRankEnv, kSizeEnv, kRendezvousFdEnv}) unsetenv(name);
    return code;
  };
  EXPECT_EQ(attach_with("x", "2", "5"), Code::bad_input);
  EXPECT_EQ(attach_with("2", "2", "5"), Code::bad_input);
  EXPECT_EQ(attach_with("-1", "2", "5"), Code::bad_input);
  EXPECT_EQ(attach_with("0", "0", "5"), Code::bad_input);
  EXPECT_EQ(attach_with("0", "2", ""), Code::bad_input);
  EXPECT_EQ(attach_with("0", "2", "987654"), Code::bad_input);
}

}  // namespace
}  // namespace weft::transport_test
