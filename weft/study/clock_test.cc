// Ranks that are threads of this process learn each other's numbers and begin together.
#include "weft/study/clock.h"

#include <mutex>

#include <gtest/gtest.h>

#include "weft/base/index.h"

namespace weft {
namespace {

constexpr int kNumbers = CommonClock::kValues;

TEST(CommonClock, EveryNumberComesToEveryRankWhole) {
  constexpr std::int64_t kLargest = (std::int64_t{1} << 62) - 1;
  World::local(3, [&](World& world) {
    CommonClock clock(world);
    for (const std::int64_t base : {std::int64_t{0}, std::int64_t{1} << 22, std::int64_t{1} << 45, kLargest - 100}) {
      std::int64_t mine[kNumbers];
      for (int i = 0; i < kNumbers; ++i) mine[i] = base + 10 * world.rank() + i;
      const auto all = clock.tell(mine);
      ASSERT_EQ(all.size(), num(3 * kNumbers));
      for (int rank = 0; rank < 3; ++rank)
        for (int i = 0; i < kNumbers; ++i) EXPECT_EQ(all[at(rank * kNumbers + i)], base + 10 * rank + i);
    }
  });
}

TEST(CommonClock, NumbersThatARankLeavesOutAreZero) {
  World::local(2, [](World& world) {
    CommonClock clock(world);
    const std::int64_t full[kNumbers] = {9, 9, 9, 9};
    clock.tell(full);
    const std::int64_t one = 5 + world.rank();
    const auto all = clock.tell({&one, 1});
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(all[at(rank * kNumbers)], 5 + rank);
      for (int i = 1; i < kNumbers; ++i) EXPECT_EQ(all[at(rank * kNumbers + i)], 0) << "of the meeting before";
    }
  });
}

TEST(CommonClock, SumsAndTheWorstAreThoseOfAllRanks) {
  World::local(4, [](World& world) {
    CommonClock clock(world);
    EXPECT_EQ(clock.sum_of_ranks(1 << world.rank()), 15);
    EXPECT_EQ(clock.worst_of_ranks(world.rank() == 2 ? 77 : world.rank()), 77);
    EXPECT_EQ(clock.worst_of_ranks(0), 0);
  });
}

TEST(CommonClock, NobodyBeginsBeforeTheLastHasCome) {
  std::mutex mutex;
  std::vector<std::int64_t> came(3), began(3), told(3);
  World::local(3, [&](World& world) {
    CommonClock clock(world);
    for (int round = 0; round < 5; ++round) {
      if (world.rank() == round % 3) {
        const timespec late{0, 3'000'000};
        nanosleep(&late, nullptr);
      }
      const std::int64_t before = CommonClock::now_ns(), start = clock.start_together();
      {
        const std::lock_guard lock(mutex);
        came[at(world.rank())] = before;
        told[at(world.rank())] = start;
        began[at(world.rank())] = CommonClock::now_ns();
      }
      clock.sum_of_ranks(0);  // all have written
      {
        const std::lock_guard lock(mutex);
        for (const std::int64_t one : told) EXPECT_EQ(one, start) << "one moment for all";
        for (const std::int64_t one : came) EXPECT_LT(one, start);
        for (const std::int64_t one : began) EXPECT_GE(one, start);
      }
      clock.sum_of_ranks(0);  // all have read
    }
  });
}

TEST(CommonClock, CpuTimeGrowsWithWorkNotWithSleep) {
  World::local(1, [](World& world) {
    const CommonClock clock(world);
    const std::int64_t before = clock.cpu_ns();
    const timespec nap{0, 30'000'000};
    nanosleep(&nap, nullptr);
    const std::int64_t slept = clock.cpu_ns() - before;
    const std::int64_t start = CommonClock::now_ns();
    volatile std::uint64_t x = 1;
    while (clock.cpu_ns() - before - slept < 5'000'000 && CommonClock::now_ns() - start < 10'000'000'000) x = x * 3 + 1;
    EXPECT_GE(clock.cpu_ns() - before - slept, 5'000'000);
    EXPECT_LT(slept, 20'000'000);
  });
}

}  // namespace
}  // namespace weft
