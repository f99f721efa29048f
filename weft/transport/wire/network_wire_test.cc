// Wires over loopback, of every kind: several in this process, each with memory of its own, so that what arrives came
// through the network. Where the build has no such kind there is one test: that make() says so.
#include "weft/transport/wire/network_wire.h"

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/transport/local/bell.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kSegment = 5;
constexpr std::size_t kMemory = 2 << 20, kCounters = kMemory - 4096;  // counters live in the last page

// How rows travel: in messages, or put into the peer's memory with a message behind.
struct Way {
  const char* name;
  WireKind kind;
  bool remote_writes;
};

// One rank: a wire, its segment, and what it was told.
struct End {
  End(const Way& way, int rank, int size, std::size_t staging_bytes) : memory(kMemory) {
    WireHost host;
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank) host.peers.push_back(peer);
    host.secret = "what only these wires know";
    host.rank = rank;
    host.size = size;
    host.device = "lo";
    host.bell = &bell;
    host.staging_bytes = staging_bytes;
    host.remote_writes = way.remote_writes;
    host.lost = [this](int peer, std::string_view reason) {
      const std::lock_guard lock(mutex);
      lost.emplace_back(peer, reason);
    };
    host.check = [this] {
      if (fail_check.load()) fail(Code::peer_failed, "the test says so");
    };
    wire = NetworkWire::make(way.kind, host);
    wire->add_segment(kSegment, memory.data(), memory.size());
  }

  std::uint32_t counter(int index) {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory.data() + kCounters + 4 * index))
        .load(std::memory_order_seq_cst);
  }
  std::size_t num_lost() {
    const std::lock_guard lock(mutex);
    return lost.size();
  }

  Bell bell;
  std::vector<std::byte> memory;
  std::atomic<bool> fail_check{false};
  std::mutex mutex;
  std::vector<std::pair<int, std::string>> lost;
  std::unique_ptr<NetworkWire> wire;
};

RemoteCounter counter_at(int index) { return {kSegment, kCounters + 4 * static_cast<std::uint64_t>(index)}; }

bool until(const std::function<bool()>& ready, std::chrono::milliseconds at_most = 10s) {
  const auto stop = std::chrono::steady_clock::now() + at_most;
  while (!ready()) {
    if (std::chrono::steady_clock::now() > stop) return false;
    std::this_thread::sleep_for(200us);
  }
  return true;
}

std::byte pattern(std::uint64_t i, std::uint64_t seed) {
  return static_cast<std::byte>((i * 131 + seed * 7 + i / 251));
}

void put(End& from, int peer, const Rows& to, std::uint64_t seed, std::span<const RemoteCounter> counters) {
  std::byte* staged = from.wire->stage(to.bytes());
  for (std::uint64_t i = 0; i < to.bytes(); ++i) staged[i] = pattern(i, seed);
  from.wire->put(peer, to, staged, counters);
}

bool holds(const End& end, const Rows& rows, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < rows.bytes(); ++i)
    if (end.memory[rows.offset + i / rows.row_bytes * rows.stride + i % rows.row_bytes] != pattern(i, seed))
      return false;
  return true;
}

class NetworkWireTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (!available(GetParam().kind)) GTEST_SKIP() << "not in this build (libssl-dev, libucx-dev)";
  }
  // Every end connected to every other.
  static std::vector<std::unique_ptr<End>> ends(int size, std::size_t staging_bytes = 2 << 20) {
    std::vector<std::unique_ptr<End>> all;
    for (int rank = 0; rank < size; ++rank) all.push_back(std::make_unique<End>(GetParam(), rank, size, staging_bytes));
    for (int a = 0; a < size; ++a)
      for (int b = 0; b < size; ++b)
        if (a != b) all[a]->wire->connect(b, all[b]->wire->address());
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(Over, NetworkWireTest,
                         testing::Values(Way{"Tls", WireKind::tls, false}, Way{"Ucx", WireKind::trusted_ucx, false},
                                         Way{"UcxPut", WireKind::trusted_ucx, true}),
                         [](const auto& info) { return info.param.name; });

std::string refusal_of(WireKind kind, const WireHost& host) {
  try {
    NetworkWire::make(kind, host);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_input);
    return error.what();
  }
  return "no refusal";
}

TEST(NetworkWire, WhatTheBuildLacksIsRefusedWithThePackage) {
  for (const auto& [kind, package] : {std::pair{WireKind::tls, "libssl-dev"}, {WireKind::trusted_ucx, "libucx-dev"}})
    EXPECT_TRUE(available(kind) || refusal_of(kind, {}).find(package) != std::string::npos);
}

// UCX's TCP port takes anyone: without the word it is not opened.
TEST(NetworkWire, UcxWithoutRdmaNeedsTheWordTrusted) {
  if (!available(WireKind::ucx) || has_rdma_device()) GTEST_SKIP() << "this build has no UCX, or this machine has RDMA";
  const std::string said = refusal_of(WireKind::ucx, {});
  for (const char* word : {"RDMA", "--link tls", "ucx,trusted"}) EXPECT_NE(said.find(word), std::string::npos) << said;
}

TEST_P(NetworkWireTest, AnUnknownDeviceIsRefused) {
  WireHost host;
  host.device = "nosuch0";
  EXPECT_NE(refusal_of(GetParam().kind, host).find("nosuch0"), std::string::npos);
}

// Nobody calls progress(): the wires' own threads do it all.
TEST_P(NetworkWireTest, RowsOfAnyShapeArriveInPlaceAndNowhereElse) {
  auto all = ends(2);
  const std::uint64_t most = all[0]->wire->most_staged_bytes();
  std::uint32_t count = 0;
  for (const Rows& rows : {Rows{kSegment, 3, 1, 1, 1}, Rows{kSegment, 64, 5, 24, 100}, Rows{kSegment, 0, 1, 5000, 5000},
                           Rows{kSegment, 4096, 250, 1000, 1024}, Rows{kSegment, 8, 1, most, most},
                           Rows{kSegment, 8, 2, most / 2, most}, Rows{kSegment, 16, most / 16, 16, 32},
                           Rows{kSegment, 0, 3, 85'000, 100'000}, Rows{kSegment, 1, 1, 200'001, 0}}) {
    std::fill(all[1]->memory.begin(), all[1]->memory.begin() + kCounters, std::byte{0xee});
    const RemoteCounter counters[] = {counter_at(0), counter_at(1)};
    put(*all[0], 1, rows, count, counters);
    ++count;
    ASSERT_TRUE(until([&] { return all[1]->counter(1) == count; })) << count;
    EXPECT_EQ(all[1]->counter(0), count);
    ASSERT_TRUE(holds(*all[1], rows, count - 1)) << rows.rows << " x " << rows.row_bytes;
    std::vector<bool> written(kCounters);
    for (std::uint64_t row = 0; row < rows.rows; ++row)
      for (std::uint64_t i = 0; i < rows.row_bytes; ++i) written[rows.offset + row * rows.stride + i] = true;
    for (std::size_t i = 0; i < kCounters; ++i)
      if (!written[i] && all[1]->memory[i] != std::byte{0xee}) FAIL() << i;
  }
  const std::uint64_t sent = all[0]->wire->counts().bytes_sent, in_messages = all[1]->wire->counts().bytes_received;
  if (GetParam().remote_writes) {
    EXPECT_LT(in_messages, sent / 2);
  } else {
    EXPECT_EQ(in_messages, sent);
  }
  EXPECT_EQ(all[0]->num_lost() + all[1]->num_lost(), 0u);
}

// Three ranks, all to all, mixed sizes, two sending threads each; every put has a counter, and whoever has seen it must
// see the data and everything that its sender's thread sent before.
TEST_P(NetworkWireTest, DataIsThereOnceItsCounterIsAndOrderHolds) {
  constexpr int kRanks = 3, kThreads = 2, kRounds = 60;
  auto all = ends(kRanks);
  const auto lane = [](int from, int thread) { return (from * kThreads + thread); };
  constexpr std::uint64_t kLane = 256 << 10;
  const auto rows_of = [&](int from, int thread, int round) {
    const std::uint64_t sizes[] = {8, 300, 4000, 9000, 40'000, 131'072, 8, 150'000, 64, 200'000};
    const std::uint64_t bytes = sizes[(round * 7 + thread) % 10];
    return Rows{kSegment, lane(from, thread) * kLane + (round % 2) * 8, 1, bytes, bytes};
  };
  // A sender waits for the reader's signal before it writes over what was read: that goes over the wire too.
  const auto sender = [&](int rank, int thread) {
    for (int round = 0; round < kRounds; ++round)
      for (int peer = 0; peer < kRanks; ++peer) {
        if (peer == rank) continue;
        while (all[rank]->counter(100 + lane(peer, thread)) < static_cast<std::uint32_t>(round)) {
          if (!all[rank]->wire->progress()) std::this_thread::yield();
          if (all[rank]->num_lost() > 0) return;
        }
        const RemoteCounter counters[] = {counter_at(lane(rank, thread))};
        put(*all[rank], peer, rows_of(rank, thread, round), round, counters);
      }
  };
  std::atomic<int> wrong{0};
  const auto reader = [&](int rank) {
    for (int round = 0; round < kRounds; ++round)
      for (int from = 0; from < kRanks; ++from)
        for (int thread = 0; thread < kThreads; ++thread) {
          if (from == rank) continue;
          const auto ready = [&] { return all[rank]->counter(lane(from, thread)) > static_cast<std::uint32_t>(round); };
          while (!sleep_unless(all[rank]->bell, ready, 100ms))
            if (all[rank]->num_lost() > 0) return;
          if (!holds(*all[rank], rows_of(from, thread, round), round)) ++wrong;
          all[rank]->wire->signal(from, counter_at(100 + lane(rank, thread)));
          all[rank]->wire->flush();
        }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(sender, rank, thread);
    threads.emplace_back(reader, rank);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  for (const auto& end : all) EXPECT_EQ(end->num_lost(), 0u);
}

// One word, written again and again without waiting, by messages of all sizes: the last one sent stands.
TEST_P(NetworkWireTest, TheLastOfManyPutsStands) {
  auto all = ends(2);
  std::mt19937 random(7);
  constexpr std::uint32_t kPuts = 1000;
  for (std::uint32_t i = 1; i <= kPuts; ++i) {
    const std::uint64_t bytes = random() % 4 == 0 ? 4 + random() % 200'000 : 4 + random() % 100;
    std::byte* staged = all[0]->wire->stage(bytes);
    std::memset(staged, 0, bytes);
    std::memcpy(staged, &i, sizeof i);
    const RemoteCounter counters[] = {counter_at(0)};
    all[0]->wire->put(1, {kSegment, 0, 1, bytes, bytes}, staged, counters);
    if (i % 3 == 0) all[0]->wire->signal(1, counter_at(0));
  }
  all[0]->wire->flush();
  ASSERT_TRUE(until([&] { return all[1]->counter(0) == kPuts + kPuts / 3; }));
  std::uint32_t last = 0;
  std::memcpy(&last, all[1]->memory.data(), sizeof last);
  EXPECT_EQ(last, kPuts);
}

TEST_P(NetworkWireTest, SignalsTravelTogether) {
  auto all = ends(2);
  ASSERT_TRUE(until([&] { return all[1]->wire->counts().messages_received > 0; }));  // connected
  all[0]->wire->attend();  // the wire's thread leaves them alone, but for a turn that it may be in the middle of
  const auto sent = [&] { return all[0]->wire->counts().messages_sent; };
  const std::uint64_t before = sent();
  for (int i = 0; i < 40; ++i) all[0]->wire->signal(1, counter_at(i % 4));
  for (int i = 0; i < 1000; ++i) all[0]->wire->signal(1, counter_at(9));
  all[0]->wire->flush();
  ASSERT_TRUE(until([&] { return all[1]->counter(9) == 1000; }));
  EXPECT_LE(sent() - before, 3u) << "of 1,040 signals";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(all[1]->counter(i), 10u);

  // With the next put, in its message; more counters than one message holds in several.
  const std::uint64_t before_put = sent();
  all[0]->wire->signal(1, counter_at(5));
  std::vector<RemoteCounter> many(63, counter_at(6));
  put(*all[0], 1, {kSegment, 0, 1, 8, 8}, 1, many);
  EXPECT_EQ(sent() - before_put, 1u);
  many.resize(200, counter_at(6));
  put(*all[0], 1, {kSegment, 0, 1, 8, 8}, 1, many);
  all[0]->wire->signal(1, counter_at(7));
  ASSERT_TRUE(until([&] {
    all[0]->wire->progress();
    return all[1]->counter(7) == 1;
  }));
  all[0]->wire->leave();
  EXPECT_EQ(all[1]->counter(5), 1u);
  EXPECT_EQ(all[1]->counter(6), 263u);
}

// A rank that runs one small op after another keeps the wire's thread waiting; when it is gone, the thread does its
// work.
TEST_P(NetworkWireTest, WhatIsHeldBackLeavesWithoutItsSender) {
  auto all = ends(2);
  for (std::uint32_t round = 1; round <= 3; ++round) {
    for (int i = 0; i < 40; ++i) {
      all[0]->wire->attend();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (i == 39) all[0]->wire->signal(1, counter_at(0));
      all[0]->wire->leave();
      if (i < 39) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    ASSERT_TRUE(until([&] { return all[1]->counter(0) == round; })) << round;
  }
}

// Far more than staging holds: the sender waits in stage(), in turn with the link.
TEST_P(NetworkWireTest, ASenderFasterThanItsPeerWaitsForStaging) {
  auto all = ends(2, 1 << 20);
  const std::uint64_t most = all[0]->wire->most_staged_bytes();
  ASSERT_EQ(most, (1u << 20) / 8);
  const auto burst = [&](int counter) {
    for (int i = 0; i < 200; ++i) {
      const RemoteCounter counters[] = {counter_at(counter)};
      put(*all[0], 1, {kSegment, counter * most, 1, most, most}, i, counters);
    }
  };
  std::thread other(burst, 1);
  burst(0);
  other.join();
  ASSERT_TRUE(until([&] { return all[1]->counter(0) == 200 && all[1]->counter(1) == 200; }));
  EXPECT_TRUE(holds(*all[1], {kSegment, 0, 1, most, most}, 199));
  EXPECT_TRUE(holds(*all[1], {kSegment, most, 1, most, most}, 199));
}

TEST_P(NetworkWireTest, StageThrowsWhatCheckThrows) {
  auto all = ends(2, 1 << 20);
  std::vector<std::byte*> taken;
  for (int i = 0; i < 8; ++i) taken.push_back(all[0]->wire->stage(all[0]->wire->most_staged_bytes()));
  all[0]->fail_check = true;
  EXPECT_THROW(all[0]->wire->stage(1), Error);
  all[0]->fail_check = false;
  for (std::byte* block : taken) all[0]->wire->put(1, {kSegment, 0, 0, 0, 0}, block, {});
  EXPECT_NE(all[0]->wire->stage(1), nullptr);
}

TEST_P(NetworkWireTest, ADestroyedPeerIsNamedOnceAndPutsToItAreDropped) {
  auto all = ends(3);
  ASSERT_TRUE(until([&] { return all[0]->wire->counts().messages_received == 2; }));
  all[2].reset();
  ASSERT_TRUE(until([&] { return all[0]->num_lost() > 0 && all[1]->num_lost() > 0; }, 5s));
  EXPECT_EQ(all[0]->lost[0].first, 2);
  EXPECT_EQ(all[1]->lost[0].first, 2);
  EXPECT_NE(all[0]->lost[0].second.find("connection"), std::string::npos) << all[0]->lost[0].second;
  const std::uint64_t most = all[0]->wire->most_staged_bytes();
  for (int i = 0; i < 50; ++i) put(*all[0], 2, {kSegment, 0, 1, most, most}, 0, {});
  const RemoteCounter counters[] = {counter_at(0)};
  put(*all[0], 1, {kSegment, 0, 1, 100, 100}, 1, counters);
  ASSERT_TRUE(until([&] { return all[1]->counter(0) == 1; }));
  EXPECT_EQ(all[0]->num_lost(), 1u);
}

TEST_P(NetworkWireTest, UnknownSegmentsAreDroppedAndOffsetsOutOfBoundsBlamed) {
  auto all = ends(2);
  const RemoteCounter counters[] = {counter_at(0), {99, 0}};
  put(*all[0], 1, {99, 0, 1, 64, 64}, 1, counters);
  ASSERT_TRUE(until([&] { return all[1]->counter(0) == 1; }));
  EXPECT_EQ(all[1]->num_lost(), 0u);
  put(*all[0], 1, {kSegment, kMemory - 8, 1, 64, 64}, 1, {});
  ASSERT_TRUE(until([&] { return all[1]->num_lost() == 1; }));
  EXPECT_EQ(all[1]->lost[0].first, 0);
  EXPECT_NE(all[1]->lost[0].second.find("offset"), std::string::npos) << all[1]->lost[0].second;
}

TEST_P(NetworkWireTest, WhatWasPutLeavesBeforeTheWireGoes) {
  auto all = ends(2);
  const std::uint64_t most = all[0]->wire->most_staged_bytes();
  for (int i = 0; i < 7; ++i) put(*all[0], 1, {kSegment, i * most, 1, most, most}, i, {});
  all[0]->wire->signal(1, counter_at(0));
  all[0].reset();
  ASSERT_TRUE(until([&] { return all[1]->counter(0) == 1; }));
}

// While someone attends, he alone moves data; nothing is lost between attend and leave.
TEST_P(NetworkWireTest, AttendingAndLeavingLosesNothing) {
  auto all = ends(2);
  std::uint32_t count = 0;
  for (int round = 0; round < 300; ++round) {
    if (round % 2 == 0) all[1]->wire->attend();
    if (round % 6 == 0) all[1]->wire->attend();
    const RemoteCounter counters[] = {counter_at(0)};
    put(*all[0], 1, {kSegment, 0, 1, 64, 64}, round, counters);
    ++count;
    if (round % 6 == 0) all[1]->wire->leave();
    if (round % 4 == 0) {
      EXPECT_TRUE(until([&] { return all[1]->wire->progress() || all[1]->counter(0) == count; }));
    }
    if (round % 2 == 0) all[1]->wire->leave();
    ASSERT_TRUE(until([&] { return all[1]->counter(0) == count; })) << round;
  }
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST_P(NetworkWireTest, IdleWiresCostNothing) {
  auto all = ends(3);
  put(*all[0], 1, {kSegment, 0, 1, 64, 64}, 1, {});
  std::this_thread::sleep_for(200ms);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(1s);
  EXPECT_LT(cpu_seconds() - before, 0.01 * 3);
}

}  // namespace
}  // namespace weft
