// Paced links: what a link takes, and the queue of signals under way.
#include "weft/transport/local/pace.h"

#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Link, ServesOneAfterAnotherAtItsRate) {
  const Pace pace{.bytes_per_s = 1e9, .latency_s = 5e-6};
  std::atomic<std::int64_t> clock{0};
  const Passage first = occupy(clock, pace, 1000, 100);
  EXPECT_EQ(first.begin_ns, 100);
  EXPECT_EQ(first.end_ns, 1100);
  EXPECT_EQ(first.due_ns, 6100);
  const Passage second = occupy(clock, pace, 500, 200);  // waits for the first, not for its latency
  EXPECT_EQ(second.begin_ns, 1100);
  EXPECT_EQ(second.due_ns, 6600);
  const Passage third = occupy(clock, pace, 0, 9000);  // an idle link saves no time up
  EXPECT_EQ(third.begin_ns, 9000);
  EXPECT_EQ(third.due_ns, 14000);
}

TEST(Link, HostsAreBlocksOfRanks) {
  const Pace pace{.bytes_per_s = 1e9, .ranks_per_host = 2};
  EXPECT_FALSE(pace.between(0, 1));
  EXPECT_TRUE(pace.between(1, 2));
  EXPECT_EQ(pace.host(5), 2);
}

TEST(Link, SignalsWithoutBytesDoNotQueueForANic) {
  const Pace pace{.bytes_per_s = 1e9, .latency_s = 5e-6, .fabric = Fabric::nic};
  std::atomic<std::int64_t> clock{0};
  EXPECT_EQ(occupy(clock, pace, 1000, 100).due_ns, 6100);
  EXPECT_EQ(occupy(clock, pace, 0, 200).due_ns, 5200);
  EXPECT_EQ(occupy(clock, pace, 500, 200).begin_ns, 1100);
}

struct Queue {
  explicit Queue(std::uint32_t slots)
      : memory(static_cast<std::byte*>(std::aligned_alloc(64, (Transit::bytes_for(slots) + 63) & ~std::size_t{63})),
               std::free),
        transit((std::fill_n(memory.get(), Transit::bytes_for(slots), std::byte{0}), memory.get()), slots) {}
  std::vector<std::uint32_t> deliver(std::int64_t now) {
    std::vector<std::uint32_t> out;
    again = transit.deliver(
        now, [&](std::uint32_t counter) { out.push_back(counter); }, nic);
    return out;
  }
  std::unique_ptr<std::byte, void (*)(void*)> memory;
  Transit transit;
  std::int64_t again = 0;
  std::atomic<std::int64_t>* nic = nullptr;
};

TEST(Transit, DeliversInOrderAndNothingBeforeItsTime) {
  Queue queue(16);
  EXPECT_EQ(queue.deliver(0), std::vector<std::uint32_t>{});
  EXPECT_EQ(queue.again, Transit::kNothing);
  EXPECT_EQ(queue.transit.push(7, 10), Transit::Push::first);
  EXPECT_EQ(queue.transit.push(8, 20), Transit::Push::queued);
  EXPECT_EQ(queue.transit.push(9, 15), Transit::Push::queued);  // stays behind 8
  EXPECT_EQ(queue.deliver(9), std::vector<std::uint32_t>{});
  EXPECT_EQ(queue.again, 10);
  EXPECT_EQ(queue.deliver(19), std::vector<std::uint32_t>{7});
  EXPECT_EQ(queue.again, 20);
  EXPECT_EQ(queue.deliver(20), (std::vector<std::uint32_t>{8, 9}));
  EXPECT_EQ(queue.transit.push(1, 30), Transit::Push::first);  // all others are there: the receiver may be asleep
}

// Two senders, 100 each for 10 of a NIC's time, from the same moment on: it is charged when bytes arrive, by their own
// times, and a queue that is looked at late loses nothing.
TEST(Transit, ChargesTheReceiversNicWhenBytesArrive) {
  std::atomic<std::int64_t> nic{0};
  Queue a(16), b(16);
  a.nic = b.nic = &nic;
  a.transit.push(1, 110, 10);
  a.transit.push(2, 120, 10);
  b.transit.push(3, 110, 10);
  EXPECT_EQ(a.transit.head()->turn_ns(), 100);
  EXPECT_TRUE(a.deliver(99).empty());
  EXPECT_EQ(a.again, 110);
  EXPECT_EQ(nic, 0);
  EXPECT_TRUE(a.deliver(100).empty());  // charged: 100 to 110
  EXPECT_EQ(a.transit.head()->turn_ns(), 110);
  EXPECT_TRUE(b.deliver(105).empty());  // 110 to 120
  EXPECT_EQ(b.again, 120);
  EXPECT_EQ(a.deliver(500), (std::vector<std::uint32_t>{1, 2}));  // 120 to 130, though it is 500
  EXPECT_EQ(nic, 130);
  EXPECT_EQ(b.deliver(500), std::vector<std::uint32_t>{3});
  b.transit.push(4, 200, 10);
  EXPECT_EQ(b.deliver(500), std::vector<std::uint32_t>{4});
  EXPECT_EQ(nic, 200);  // an idle NIC saves no time up
}

TEST(Transit, RefusesWhatItCannotHold) {
  Queue queue(16);
  for (std::uint32_t i = 0; i < 16; ++i) ASSERT_NE(queue.transit.push(i, i), Transit::Push::full);
  EXPECT_EQ(queue.transit.push(16, 16), Transit::Push::full);
  EXPECT_EQ(queue.deliver(0).size(), 1u);
  EXPECT_EQ(queue.transit.push(16, 16), Transit::Push::queued);
  EXPECT_EQ(queue.deliver(100).size(), 16u);
}

// Three threads push, two deliver: every signal comes out once, those of one thread in their order.
TEST(Transit, ManyThreadsLoseNothing) {
  constexpr std::uint32_t kEach = 20'000, kSenders = 3;
  Queue queue(64);
  std::vector<std::uint32_t> next(kSenders, 0);
  std::atomic<std::uint32_t> delivered{0};
  std::atomic<bool> in_order{true};
  const auto receive = [&] {
    while (delivered < kEach * kSenders) {
      queue.transit.deliver(1, [&](std::uint32_t value) {
        if (next[value % kSenders]++ != value / kSenders) in_order = false;
        ++delivered;
      });
      std::this_thread::yield();
    }
  };
  std::vector<std::thread> threads;
  for (std::uint32_t sender = 0; sender < kSenders; ++sender)
    threads.emplace_back([&, sender] {
      for (std::uint32_t i = 0; i < kEach; ++i)
        while (queue.transit.push(i * kSenders + sender, 1) == Transit::Push::full) std::this_thread::yield();
    });
  threads.emplace_back(receive);
  threads.emplace_back(receive);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(in_order);
  EXPECT_TRUE(queue.transit.empty());
}

}  // namespace
}  // namespace weft
