// The bell: no wake-up is lost, whichever way the signal and the sleep interleave.
#include "weft/transport/local/bell.h"

#include <thread>

#include <gtest/gtest.h>

namespace weft {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Two threads hand a token to and fro. Each sleep may last 5 s, so one lost wake-up shows as 5 s.
TEST(Bell, NeverLosesAWakeUp) {
  constexpr std::uint32_t kRounds = 50'000;
  Bell bells[2];
  std::atomic<std::uint32_t> counters[2] = {0, 0};
  std::atomic<bool> late{false};
  const auto player = [&](int me) {
    for (std::uint32_t round = 1; round <= kRounds && !late; ++round) {
      if (me == 0 || round > 1) {
        const std::uint32_t awaited = me == 0 ? round - 1 : round;
        const auto ready = [&] { return counters[me].load(std::memory_order_seq_cst) >= awaited; };
        const auto start = Clock::now();
        while (!sleep_unless(bells[me], ready, 5s))
          if (Clock::now() - start > 4s) late = true;
      }
      counters[1 - me].fetch_add(1, std::memory_order_seq_cst);
      ring_if_asleep(bells[1 - me]);
    }
  };
  std::thread other(player, 1);
  player(0);
  other.join();
  EXPECT_FALSE(late) << "a sleeper was not woken";
  EXPECT_EQ(bells[0].sleepers.load(), 0u);
  EXPECT_EQ(bells[1].sleepers.load(), 0u);
}

TEST(Bell, SleepsNoLongerThanAsked) {
  Bell bell;
  const auto start = Clock::now();
  EXPECT_FALSE(sleep_unless(
      bell, [] { return false; }, 20ms));
  EXPECT_GE(Clock::now() - start, 19ms);
  EXPECT_LT(Clock::now() - start, 2s);
}

TEST(Bell, DoesNotSleepWhenReady) {
  Bell bell;
  const auto start = Clock::now();
  EXPECT_TRUE(sleep_unless(
      bell, [] { return true; }, 10s));
  EXPECT_LT(Clock::now() - start, 1s);
}

TEST(Bell, RingWithoutSleepersTouchesNothing) {
  Bell bell;
  ring_if_asleep(bell);
  EXPECT_EQ(bell.rings.load(), 0u);
}

// Several threads of one rank sleep on the same bell; one ring wakes them all.
TEST(Bell, OneRingWakesAllSleepers) {
  Bell bell;
  std::atomic<std::uint32_t> counter{0};
  std::atomic<int> awake{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 4; ++i)
    sleepers.emplace_back([&] {
      while (!sleep_unless(
          bell, [&] { return counter.load() == 1; }, 10s)) {
      }
      ++awake;
    });
  while (bell.sleepers.load() != 4) std::this_thread::yield();
  std::this_thread::sleep_for(10ms);
  const auto start = Clock::now();
  counter.fetch_add(1);
  ring_if_asleep(bell);
  for (auto& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(awake, 4);
  EXPECT_LT(Clock::now() - start, 2s);
}

}  // namespace
}  // namespace weft
