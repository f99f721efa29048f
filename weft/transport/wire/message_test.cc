// The parts of the wire that know no network: cuts, segments, order, staging, settings.
#include "weft/transport/wire/message.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/transport/wire/staging.h"
#include "weft/transport/wire/tempo.h"
#include "weft/transport/wire/ucx_order.h"
#include "weft/transport/wire/ucx_settings.h"

namespace weft {
namespace {

// Where each packed byte of a put lands: by the definition of Rows, and by its pieces.
std::vector<std::uint64_t> places(const Rows& rows) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t row = 0; row < rows.rows; ++row)
    for (std::uint64_t i = 0; i < rows.row_bytes * rows.growth(); ++i)
      all.push_back(rows.offset + row * rows.stride + i);
  return all;
}

TEST(Cut, PiecesCoverEveryByteOnceInOrder) {
  for (const Rows& rows : {Rows{1, 7, 10, 3, 5}, Rows{1, 0, 1, 1, 1}, Rows{1, 3, 4, 100, 100}, Rows{1, 3, 4, 100, 130},
                           Rows{1, 0, 3, 64, 64}, Rows{1, 0, 3, 16, 1000}, Rows{1, 9, 5, 33, 40}, Rows{1, 9, 1, 33, 0}})
    for (const std::uint64_t most : {1, 16, 32, 33, 1000}) {
      const Cut cut(rows, most);
      std::vector<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < cut.size(); ++i) {
        EXPECT_EQ(cut[i].packed, seen.size());
        EXPECT_LE(cut[i].box.bytes(), most);
        const auto some = places(cut[i].box);
        seen.insert(seen.end(), some.begin(), some.end());
      }
      EXPECT_EQ(seen, places(rows)) << rows.rows << " x " << rows.row_bytes << " by " << most;
    }
  EXPECT_EQ(Cut(Rows{1, 0, 0, 8, 8}, 16).size(), 0u);
}

TEST(Cut, PiecesOfWidenedRowsLandTwiceAsFarApart) {
  for (const Rows& rows : {Rows{1, 8, 10, 6, 16, Landing::widened}, Rows{1, 0, 4, 100, 200, Landing::widened},
                           Rows{1, 0, 3, 64, 1000, Landing::widened}})
    for (const std::uint64_t most : {2, 16, 34, 1000}) {
      const Cut cut(rows, most);
      std::vector<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < cut.size(); ++i) {
        EXPECT_EQ(2 * cut[i].packed, seen.size());
        EXPECT_LE(cut[i].box.bytes(), most);
        const auto some = places(cut[i].box);
        seen.insert(seen.end(), some.begin(), some.end());
      }
      EXPECT_EQ(seen, places(rows)) << rows.rows << " x " << rows.row_bytes << " by " << most;
    }
}

MessageHeader header_of(const Rows& rows, int before, int after) {
  MessageHeader header{};
  header.segment = rows.segment;
  header.offset = rows.offset;
  header.stride = rows.stride;
  header.rows = static_cast<std::uint32_t>(rows.rows);
  header.row_bytes = static_cast<std::uint32_t>(rows.row_bytes);
  header.landing = static_cast<std::uint32_t>(rows.landing);
  header.counters_before = static_cast<std::uint16_t>(before);
  header.counters_after = static_cast<std::uint16_t>(after);
  return header;
}

TEST(SegmentTable, WritesRowsAndRaisesCounters) {
  alignas(4) std::byte memory[64] = {};
  SegmentTable table;
  table.add(7, memory, sizeof memory);
  const std::byte data[] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  const MessageCounter counters[] = {{48, 7, 2}, {52, 7, 1}, {52, 9, 1}};
  EXPECT_TRUE(table.apply(header_of({7, 10, 2, 2, 8}, 1, 2), counters, data));
  EXPECT_EQ(memory[10], std::byte{1});
  EXPECT_EQ(memory[11], std::byte{2});
  EXPECT_EQ(memory[12], std::byte{0});
  EXPECT_EQ(memory[18], std::byte{3});
  EXPECT_EQ(memory[19], std::byte{4});
  EXPECT_EQ(memory[48], std::byte{2});
  EXPECT_EQ(memory[52], std::byte{1});
  table.remove(7);
  EXPECT_FALSE(table.apply(header_of({7, 10, 2, 2, 8}, 0, 1), counters, data));
  EXPECT_EQ(memory[48], std::byte{2});
}

TEST(SegmentTable, WidensRowsWhereTheyLand) {
  alignas(4) std::byte memory[64] = {};
  SegmentTable table;
  table.add(7, memory, sizeof memory);
  const std::uint16_t sent[] = {0x3f80, 0xc000, 0x7fc1, 0x0001};  // 1, -2, a NaN, the smallest
  const auto data = std::as_bytes(std::span(sent));
  table.apply(header_of({7, 8, 2, 4, 24, Landing::widened}, 0, 0), nullptr, data);
  const auto word = [&](std::size_t at) {
    std::uint32_t value;
    std::memcpy(&value, memory + at, sizeof value);
    return value;
  };
  EXPECT_EQ(word(4), 0u);
  EXPECT_EQ(word(8), 0x3f800000u);
  EXPECT_EQ(word(12), 0xc0000000u);
  EXPECT_EQ(word(16), 0u);
  EXPECT_EQ(word(32), 0x7fc10000u);
  EXPECT_EQ(word(36), 0x00010000u);
  EXPECT_NO_THROW(table.apply(header_of({7, 48, 1, 8, 0, Landing::widened}, 0, 0), nullptr, data));
  EXPECT_THROW(table.apply(header_of({7, 52, 1, 8, 0, Landing::widened}, 0, 0), nullptr, data), Error);
  EXPECT_THROW(table.apply(header_of({7, 0, 8, 1, 4, Landing::widened}, 0, 0), nullptr, data), Error);
  EXPECT_THROW(table.apply(header_of({7, 0, 1, 8, 8, Landing{2}}, 0, 0), nullptr, data), Error);
}

TEST(SegmentTable, RefusesWhatIsOutOfBoundsAndWritesNothing) {
  alignas(4) std::byte memory[64] = {};
  SegmentTable table;
  table.add(7, memory, 32);
  const std::vector<std::byte> data(8, std::byte{9});
  const MessageCounter good[] = {{0, 7, 1}};
  const auto refuses = [&](const Rows& rows, const MessageCounter& counter) {
    const MessageCounter counters[] = {good[0], counter};
    EXPECT_THROW(table.apply(header_of(rows, 1, 1), counters, data), Error) << rows.offset << " " << counter.offset;
    EXPECT_EQ(std::count(std::begin(memory), std::end(memory), std::byte{0}), 64);
  };
  refuses({7, 25, 1, 8, 8}, good[0]);
  refuses({7, 0, 2, 4, 29}, good[0]);
  refuses({7, ~0ull - 3, 1, 8, 8}, good[0]);
  refuses({7, 0, 2, 4, ~0ull - 1}, good[0]);
  refuses({7, 0, 1, 4, 4}, good[0]);  // other bytes than announced
  refuses({7, 0, 1, 8, 8}, {32, 7, 1});
  refuses({7, 0, 1, 8, 8}, {29, 7, 1});
  refuses({7, 0, 1, 8, 8}, {6, 7, 1});
  refuses({7, 0, 1, 8, 8}, {~0ull - 3, 7, 1});
}

TEST(InOrder, AppliesInOrderWhateverTheArrival) {
  std::vector<std::uint64_t> sent(200);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = i;
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    if (round > 0) std::shuffle(sent.begin(), sent.end(), random);
    InOrder order;
    std::vector<std::uint64_t> applied;
    for (const std::uint64_t sequence : sent) {
      // The buffer is the network's: what is kept must be a copy.
      std::uint64_t bytes[2] = {sequence, sequence * 3};
      const auto whole = std::as_bytes(std::span(bytes));
      order.arrive(sequence, whole.first(8), whole.last(8), [&](auto header, auto data) {
        std::uint64_t values[2];
        std::memcpy(&values[0], header.data(), 8);
        std::memcpy(&values[1], data.data(), 8);
        EXPECT_EQ(values[1], values[0] * 3);
        applied.push_back(values[0]);
      });
      bytes[0] = bytes[1] = ~0ull;
    }
    EXPECT_EQ(applied.size(), sent.size());
    EXPECT_TRUE(std::is_sorted(applied.begin(), applied.end()));
    EXPECT_EQ(order.num_kept(), 0u);
  }
}

TEST(InOrder, RefusesRepeatsAndGaps) {
  InOrder order;
  const auto nothing = [](auto, auto) {};
  using Verdict = InOrder::Verdict;
  EXPECT_EQ(order.arrive(0, {}, {}, nothing), Verdict::applied);
  EXPECT_EQ(order.arrive(0, {}, {}, nothing), Verdict::repeated);
  EXPECT_EQ(order.arrive(2, {}, {}, nothing), Verdict::kept);
  EXPECT_EQ(order.arrive(2, {}, {}, nothing), Verdict::repeated);
  EXPECT_EQ(order.arrive(InOrder::kMostEarly + 2, {}, {}, nothing), Verdict::too_early);
  EXPECT_EQ(order.arrive(1, {}, {}, nothing), Verdict::applied);
  EXPECT_EQ(order.arrive(3, {}, {}, nothing), Verdict::applied);
}

TEST(Staging, BlocksNeverOverlapAndAllComesBack) {
  constexpr std::size_t kBytes = 200 * Staging::kUnit, kMost = 70 * Staging::kUnit;
  Staging staging(kBytes, kMost);
  std::mt19937 random(3);
  struct Taken {
    std::byte* at;
    std::size_t bytes;
    std::byte mark;
  };
  std::vector<Taken> taken;
  const auto give_one = [&](std::size_t i) {
    for (std::size_t b = 0; b < taken[i].bytes; ++b) ASSERT_EQ(taken[i].at[b], taken[i].mark);
    EXPECT_TRUE(staging.give_back(taken[i].at));
    taken.erase(taken.begin() + i);
  };
  int refused = 0;
  for (int step = 0; step < 5000; ++step) {
    const std::size_t bytes = 1 + random() % (step % 3 == 0 ? kMost : 3000);
    if (std::byte* at = staging.take(bytes)) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % 64, 0u);
      std::memset(at, step & 255, bytes);
      taken.push_back({at, bytes, static_cast<std::byte>(step & 255)});
    } else {
      ++refused;
      ASSERT_FALSE(taken.empty());
      give_one(random() % taken.size());
    }
  }
  EXPECT_GT(refused, 100);
  while (!taken.empty()) give_one(0);
  EXPECT_EQ(staging.units_in_use(), 0u);
  EXPECT_NE(staging.take(kMost), nullptr);
  EXPECT_NE(staging.take(kMost), nullptr);
  EXPECT_EQ(staging.take(kMost), nullptr);
  EXPECT_THROW(staging.take(kMost + 1), Error);
}

TEST(Staging, ABlockInPartsIsFreeAfterTheLast) {
  Staging staging(4 * Staging::kUnit, 4 * Staging::kUnit);
  std::byte* block = staging.take(4 * Staging::kUnit);
  staging.split(block, 3);
  EXPECT_FALSE(staging.give_back(block));
  EXPECT_FALSE(staging.give_back(block));
  EXPECT_EQ(staging.take(1), nullptr);
  EXPECT_TRUE(staging.give_back(block));
  EXPECT_EQ(staging.take(1), block);
}

TEST(Staging, TheLineIsServedFromItsHead) {
  Staging staging(4 * Staging::kUnit, 4 * Staging::kUnit);
  std::byte* block = staging.take(1);
  {
    const Staging::Turn large(staging), small(staging);
    EXPECT_EQ(staging.take(1), nullptr);
    EXPECT_EQ(staging.take(1, small), nullptr);
    EXPECT_EQ(staging.take(4 * Staging::kUnit, large), nullptr);
    staging.give_back(block);
    EXPECT_NE(block = staging.take(4 * Staging::kUnit, large), nullptr);
    staging.give_back(block);
  }
  EXPECT_NE(staging.take(1), nullptr);
}

TEST(UcxSettings, SharedMemoryIsNeverLeft) {
  EXPECT_EQ(allowed_transports("", true), "^posix,sysv,cma,xpmem,knem");
  EXPECT_EQ(allowed_transports("all", true), "^posix,sysv,cma,xpmem,knem");
  EXPECT_EQ(allowed_transports("tcp", true), "tcp");
  EXPECT_EQ(allowed_transports("shm,tcp,posix,self", true), "tcp,self");
  EXPECT_EQ(allowed_transports("sm,rc,\\cma", true), "rc");
  EXPECT_EQ(allowed_transports("^ib,cma", true), "^ib,cma,posix,sysv,xpmem,knem");
  EXPECT_THROW(allowed_transports("sm,knem", true), Error);
  // Where the network is not trusted, UCX opens no TCP port.
  EXPECT_EQ(allowed_transports("", false), "^posix,sysv,cma,xpmem,knem,tcp");
  EXPECT_EQ(allowed_transports("all", false), "^posix,sysv,cma,xpmem,knem,tcp");
  EXPECT_EQ(allowed_transports("rc,tcp,self", false), "rc,self");
  EXPECT_EQ(allowed_transports("^ib", false), "^ib,posix,sysv,cma,xpmem,knem,tcp");
  EXPECT_THROW(allowed_transports("tcp,sm", false), Error);
}

// A sender of 128 KB messages at `rate` bytes a ns who, for `answers`, waits for each to be seen before the next.
struct Stream {
  std::chrono::nanoseconds last_nap{0};
  std::uint64_t bytes = 0;
  Tempo::Clock::time_point now{std::chrono::seconds(100)};

  void run(Tempo& tempo, int messages, double rate, bool answers) {
    const std::chrono::nanoseconds each(static_cast<std::int64_t>((128 << 10) / rate));
    auto due = now + each;
    for (int sent = 0; sent < messages;) {
      if (now < due) now = due;  // asleep on the descriptor
      for (; due <= now && sent < messages; ++sent) {
        bytes += 128 << 10;
        due = answers ? now + each : due + each;
      }
      last_nap = tempo.nap(bytes, now);
      now += last_nap;
    }
  }
};

TEST(Tempo, NapsInStreamsOnly) {
  using namespace std::chrono_literals;
  Tempo tempo;
  Stream stream;
  stream.run(tempo, 7, 0.119, false);
  EXPECT_EQ(stream.last_nap, 0ns);
  stream.run(tempo, 100, 0.119, false);
  EXPECT_NEAR(static_cast<double>(stream.last_nap.count()), 65536 / 0.119, 60'000);
  stream.now += 20ms;
  stream.run(tempo, 3, 0.119, false);
  EXPECT_EQ(stream.last_nap, 0ns);
  stream.now += 20ms;
  stream.run(tempo, 500, 0.006, false);  // 50 Mbit/s
  EXPECT_EQ(stream.last_nap, 0ns);
}

TEST(Tempo, ASenderThatWaitsForAnswersIsHardlySlowed) {
  Tempo tempo;
  Stream stream;
  const auto start = stream.now;
  stream.run(tempo, 2000, 0.119, true);
  const double ideal = 2000.0 * (128 << 10) / 0.119;
  EXPECT_LT(static_cast<double>((stream.now - start).count()), 1.06 * ideal);
}

}  // namespace
}  // namespace weft
