// Ranks as threads: set-up calls, and how an error of one rank reaches the others.
#include "weft/transport/local/threads.h"

#include <thread>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/transport/local/wait.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Counters at the start of a rank's segment, as an executor would lay them out.
std::atomic<std::uint32_t>& counter(Segment& segment, int rank) {
  return *reinterpret_cast<std::atomic<std::uint32_t>*>(segment.base[rank]);
}

TEST(ThreadRanks, AllGatherKeepsRankOrder) {
  for (const int num_ranks : {1, 2, 3, 8})
    run_thread_ranks(num_ranks, [&](Transport& transport) {
      for (int round = 0; round < 50; ++round) {
        const auto texts = transport.all_gather(std::to_string(100 * round + transport.rank()));
        ASSERT_EQ(texts.size(), num(num_ranks));
        for (int rank = 0; rank < num_ranks; ++rank) ASSERT_EQ(texts[rank], std::to_string(100 * round + rank));
      }
    });
}

TEST(ThreadRanks, SegmentsAreSharedZeroedAndOfAnySize) {
  run_thread_ranks(4, [](Transport& transport) {
    const int me = transport.rank();
    const auto segment = transport.allocate(1000 * num(me));  // rank 0 wants nothing
    for (int rank = 0; rank < 4; ++rank) {
      ASSERT_EQ(segment->bytes[rank], 1000u * rank);
      ASSERT_NE(segment->base[rank], nullptr);
    }
    for (std::size_t i = 0; i < segment->bytes[me]; ++i) ASSERT_EQ(segment->base[me][i], std::byte{0});
    transport.barrier();
    const int right = (me + 1) % 4;
    if (segment->bytes[right] != 0) segment->base[right][7] = static_cast<std::byte>(me + 1);
    transport.barrier();
    if (me != 0) {
      ASSERT_EQ(segment->base[me][7], static_cast<std::byte>(me));
    }
  });
}

TEST(ThreadRanks, BarrierWaitsForTheLast) {
  std::atomic<int> entered{0};
  run_thread_ranks(5, [&](Transport& transport) {
    if (transport.rank() == 3) std::this_thread::sleep_for(30ms);
    ++entered;
    transport.barrier();
    EXPECT_EQ(entered, 5);
  });
}

TEST(ThreadRanks, TooMuchMemoryIsRefusedOnEveryRankAlike) {
  std::atomic<int> refused{0};
  run_thread_ranks(3, [&](Transport& transport) {
    try {
      transport.allocate(transport.rank() == 1 ? std::size_t{1} << 50 : 64);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::no_memory);
      EXPECT_EQ(error.rank(), 1);
      EXPECT_NE(std::string(error.what()).find("1125899906842624"), std::string::npos) << error.what();
      ++refused;
    }
    EXPECT_NE(transport.allocate(64), nullptr);  // still usable
  });
  EXPECT_EQ(refused, 3);
}

TEST(ThreadRanks, SegmentOutlivesItsOwnersHandle) {
  run_thread_ranks(2, [](Transport& transport) {
    auto segment = transport.allocate(4096);
    if (transport.rank() == 0) segment.reset();
    transport.barrier();
    if (transport.rank() == 1) segment->base[0][4095] = std::byte{1};
  });
}

TEST(ThreadRanks, ErrorReachesWaitingPeersWithItsCause) {
  std::atomic<int> told{0};
  const auto start = Clock::now();
  try {
    run_thread_ranks(4, [&](Transport& transport) {
      if (transport.rank() == 2) {
        std::this_thread::sleep_for(50ms);
        bad_input("the cup is empty");
      }
      try {
        wait_until(
            transport, Patience{}, [] { return false; }, [](auto) {});
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::peer_failed);
        EXPECT_EQ(error.rank(), 2);
        EXPECT_EQ(error.host(), transport.host(2));
        EXPECT_NE(std::string(error.what()).find("the cup is empty"), std::string::npos) << error.what();
        ++told;
        throw;
      }
    });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_input);
    EXPECT_STREQ(error.what(), "the cup is empty");
  }
  EXPECT_EQ(told, 3);
  EXPECT_LT(Clock::now() - start, 2s);
}

TEST(ThreadRanks, ErrorReachesPeersInASetUpCall) {
  const auto start = Clock::now();
  EXPECT_THROW(run_thread_ranks(3,
                                [](Transport& transport) {
                                  if (transport.rank() == 1) throw std::runtime_error("no luck");
                                  transport.allocate(64);
                                }),
               std::runtime_error);
  EXPECT_LT(Clock::now() - start, 2s);
}

TEST(ThreadRanks, ARankThatEndsEarlyIsNamed) {
  try {
    run_thread_ranks(3, [](Transport& transport) {
      if (transport.rank() != 1) transport.barrier();
    });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::peer_failed);
    EXPECT_EQ(error.rank(), 1);
  }
}

TEST(ThreadRanks, RingOfSignalsMakesProgress) {
  const std::uint32_t kLaps = 500;
  run_thread_ranks(8, [kLaps](Transport& transport) {
    const auto segment = transport.allocate(64);
    const int me = transport.rank();
    const int right = (me + 1) % 8;
    auto& mine = counter(*segment, me);
    for (std::uint32_t lap = 1; lap <= kLaps; ++lap) {
      const std::uint32_t awaited = me == 0 ? lap - 1 : lap;
      wait_until(
          transport, Patience{}, [&] { return mine.load(std::memory_order_seq_cst) >= awaited; },
          [](std::chrono::nanoseconds waited) { ASSERT_LT(waited, 30s); });
      transport.publish_progress(lap);
      counter(*segment, right).fetch_add(1, std::memory_order_seq_cst);
      ring_if_asleep(transport.bell(right));
    }
    transport.barrier();
    EXPECT_EQ(transport.progress_of(right), kLaps);
    EXPECT_EQ(transport.silent_for(right), 0ns);
  });
}

TEST(ThreadRanks, TransportsWithoutTheRunner) {
  auto transports = make_thread_transports(2);
  EXPECT_EQ(transports[1]->rank(), 1);
  EXPECT_EQ(transports[1]->size(), 2);
  EXPECT_EQ(transports[1]->name(), "threads");
  std::thread other([&] { EXPECT_EQ(transports[1]->all_gather("b")[0], "a"); });
  EXPECT_EQ(transports[0]->all_gather("a")[1], "b");
  other.join();
  transports[0]->check();
  transports[1]->abort("enough");
  EXPECT_THROW(transports[0]->check(), Error);
}

TEST(ThreadRanks, NoRanksIsBadInput) {
  EXPECT_THROW(run_thread_ranks(0, [](Transport&) {}), Error);
  EXPECT_THROW(make_thread_transports(-1), Error);
}

}  // namespace
}  // namespace weft
