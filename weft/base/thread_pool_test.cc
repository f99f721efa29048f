#include "weft/base/thread_pool.h"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

// Every thread is called once a run, whether helpers are awake, asleep, or falling asleep just then.
TEST(ThreadPool, EveryThreadWorksOnceARun) {
  for (const int size : {1, 2, 3, 8})
    for (const int spin_us : {0, 1, 30}) {
      ThreadPool threads(size);
      threads.set_spin(std::chrono::microseconds(spin_us));
      std::vector<int> calls(num(size));  // plain: run() orders them
      constexpr int kRuns = 500;
      for (int run = 0; run < kRuns; ++run) {
        threads.run([&](int thread) { ++calls[at(thread)]; });
        for (const int count : calls) ASSERT_EQ(count, run + 1) << size << " threads, spin " << spin_us;
        if (run % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
}

TEST(ThreadPool, TheCallerWaitsForTheSlowest) {
  for (const int spin_us : {0, 30}) {
    ThreadPool threads(3);
    threads.set_spin(std::chrono::microseconds(spin_us));
    std::atomic<int> done{0};
    for (int run = 1; run <= 5; ++run) {
      threads.run([&](int thread) {
        std::this_thread::sleep_for(std::chrono::milliseconds(thread));
        ++done;
      });
      EXPECT_EQ(done, 3 * run);
    }
  }
}

TEST(ThreadPool, RethrowsAndGoesOn) {
  ThreadPool threads(4);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_THROW(threads.run([](int thread) {
      if (thread == 2) throw std::runtime_error("two");
    }),
                 std::runtime_error);
    std::atomic<int> calls{0};
    threads.run([&](int) { ++calls; });
    EXPECT_EQ(calls, 4);
  }
}

TEST(ThreadPool, DealsEveryPieceOfEveryListOnce) {
  ThreadPool threads(3);
  const std::int64_t counts[]{5, 0, 100, 1};
  std::vector<std::atomic<int>> seen(400);
  deal(threads, counts, [&](std::size_t list, std::int64_t i) { ++seen[100 * list + static_cast<std::size_t>(i)]; });
  for (std::size_t i = 0; i < seen.size(); ++i)
    EXPECT_EQ(seen[i], static_cast<std::int64_t>(i % 100) < counts[i / 100] ? 1 : 0) << i;
  deal(threads, {}, [](std::size_t, std::int64_t) { FAIL() << "there is nothing to deal"; });
}

TEST(ThreadPool, RefusesNoThreadsAndTooMany) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(1025), Error);
}

}  // namespace
}  // namespace weft
