// Paced links of fabric `nic`: a host sends and receives at the link's rate, however many hosts it talks to.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "weft/base/clock.h"
#include "weft/base/index.h"
#include "weft/plan/price/estimate.h"
#include "weft/plan/verify/verify.h"
#include "weft/weft.h"

#include "tests/moves.h"

namespace weft::testing {
namespace {

#ifdef WEFT_SANITIZED
constexpr double kSlack = 2;  // copies take longer, links do not
#else
constexpr double kSlack = 1.5;  // beside other tests on two cores; alone 1.03 to 1.08
#endif

// 64 rows of 8 KB, 0.5 MB, which take 10.5 ms at 50 MB/s; a tile of 16 KB takes 0.33.
constexpr std::int64_t kRows = 64, kCols = 2048, kTileRows = 2;
constexpr double kRate = 50e6;
constexpr double kPass = kRows * kCols * 4 / kRate;

Moves moves_of(int num_ranks, std::vector<Move> list) {
  return {.num_ranks = num_ranks, .rows = kRows, .cols = kCols, .tile_rows = kTileRows, .list = std::move(list)};
}

WorldOptions paced(int ranks_per_host = 1, Fabric fabric = Fabric::nic, double latency_s = 10e-6) {
  WorldOptions options;
  options.link = Link{.bytes_per_s = kRate, .latency_s = latency_s, .fabric = fabric};
  options.ranks_per_host = ranks_per_host;
  return options;
}

// When each rank had its rows, from the first rank's start on. The shortest of up to forty runs whose last rank needs
// no more than `enough`: what is longer is up to the machine.
using Ended = std::vector<double>;
using Hook = std::function<void(int rank)>;
const Hook kNothing = [](int) {};
Ended run(const Moves& moves, const WorldOptions& options, double enough, const Hook& before_output = kNothing,
          const Hook& before_run = kNothing) {
  const Plan plan = plan_of(moves);
  require_runnable(plan);
  const auto n = num(moves.num_ranks);
  Ended best(n, 1e9), ended(n);
  std::atomic<std::int64_t> first{0};
  World::local(
      moves.num_ranks,
      [&](World& world) {
        Op op = world.compile(plan, world.mesh({{"all", world.size()}}), "all");
        std::vector<float> x(kRows * kCols);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(world.rank() * 1000 + i % 999);
        const auto longest = [](const Ended& all) { return *std::max_element(all.begin(), all.end()); };
        for (int round = 0; round < 40; ++round) {
          first = INT64_MAX;
          world.barrier();
          const std::int64_t start = now_ns();
          for (std::int64_t seen = first; start < seen && !first.compare_exchange_weak(seen, start);) {
          }
          before_run(world.rank());
          testing::run(op, x.data());
          before_output(world.rank());
          op.output();
          const std::int64_t end = now_ns();
          world.barrier();
          ended[at(world.rank())] = static_cast<double>(end - first) * 1e-9;
          world.barrier();
          if (world.rank() == 0 && longest(ended) < longest(best)) best = ended;
          world.barrier();
          if (longest(best) <= enough) break;
        }
        const Matrix y = op.output();
        for (const Move& move : moves.list) {
          if (move.to != world.rank()) continue;
          const int origin = move.origin < 0 ? move.from : move.origin;
          for (std::int64_t i = move.first * kCols; i < (move.first + move.rows) * kCols; ++i)
            ASSERT_EQ(y.data[i], static_cast<float>(origin * 1000 + i % 999));
        }
      },
      options);
  return best;
}

void expect_takes(const Ended& ended, double seconds) {
  const double last = *std::max_element(ended.begin(), ended.end());
  EXPECT_GE(last, seconds);
  EXPECT_LT(last, kSlack * seconds);
}

TEST(Nic, OneToManySharesTheSender) {
  const Moves moves = moves_of(4, {{0, 1, 0, kRows}, {0, 2, 0, kRows}, {0, 3, 0, kRows}});
  expect_takes(run(moves, paced(), kSlack * 3 * kPass), 3 * kPass);
}

TEST(Nic, PairsHaveALinkEach) {
  const Moves moves = moves_of(4, {{0, 1, 0, kRows}, {0, 2, 0, kRows}, {0, 3, 0, kRows}});
  expect_takes(run(moves, paced(1, Fabric::pairs), kSlack * kPass), kPass);
}

TEST(Nic, ManyToOneSharesTheReceiver) {
  const Moves moves = moves_of(4, {{1, 0, 0, 16}, {2, 0, 16, 16}, {3, 0, 32, 32}});
  expect_takes(run(moves, paced(), kSlack * kPass), kPass);
}

// Two ranks of one host receive from two hosts: the NIC is the host's.
TEST(Nic, RanksOfOneHostShareIt) {
  const Moves moves = moves_of(6, {{2, 0, 0, kRows}, {4, 1, 0, kRows}});
  expect_takes(run(moves, paced(2), kSlack * 2 * kPass), 2 * kPass);
}

// Each of three hosts sends 20 rows to each other, 40 out and 40 in at the same time, a tile to one and a tile to the
// other: who sent all to one first, because that one opened first, might find the other's NIC idle till then.
TEST(Nic, ExchangesInBothDirectionsAtOnce) {
  std::vector<Move> list;
  for (std::int64_t row = 0; row < 20; row += kTileRows)
    for (int step = 1; step < 3; ++step)
      for (int rank = 0; rank < 3; ++rank) list.push_back({rank, (rank + step) % 3, 20 * rank + row, kTileRows});
  const double expected = 40 * kPass / kRows, begin = 1e-3;  // until all are open, a rank sends what is
  const Ended ended = run(moves_of(3, list), paced(), kSlack * expected + begin);
  const double last = *std::max_element(ended.begin(), ended.end());
  EXPECT_GE(last, expected);
  EXPECT_LT(last, kSlack * expected + begin);
}

// Senders issue all they have at once, one three times as much as the other: neither waits for the other's last byte.
// The smaller part is there after twice its own time; rank 2 hands it on, so that rank 3 tells when.
TEST(Nic, SendersTakeTurns) {
  const Moves moves = moves_of(4, {{0, 2, 0, 48}, {1, 2, 48, 16}, {2, 3, 48, 16, 1}});
  const double tile = kPass * kTileRows / kRows, limit = kSlack * (kPass / 2 + 4 * tile);
  Ended ended = run(moves, paced(), kSlack * kPass);
  for (int more = 0; more < 10 && ended[3] >= limit; ++more) ended = run(moves, paced(), kSlack * kPass);
  expect_takes(ended, kPass);
  EXPECT_GE(ended[3], kPass / 4);  // all alone, where the other sender comes late
  EXPECT_LT(ended[3], limit);
}

// A chain of hosts passes tiles on as they come: the whole at line rate, and a tile's time for every hop.
TEST(Nic, AChainOfHostsRunsAtLineRate) {
  const Moves moves = moves_of(4, {{0, 1, 0, kRows}, {1, 2, 0, kRows, 0}, {2, 3, 0, kRows, 0}});
  const double expected = kPass * (1 + 2.0 * kTileRows / kRows);
  expect_takes(run(moves, paced(), kSlack * expected), expected);
}

// A receiver that looks only when all has long been there has lost nothing: it is done at once.
TEST(Nic, ALateLookLosesNothing) {
  const Moves moves = moves_of(3, {{0, 2, 0, 32}, {1, 2, 32, 32}});
  const auto nap = [](int rank) {
    if (rank == 2) std::this_thread::sleep_for(std::chrono::duration<double>(1.1 * kPass));
  };
  expect_takes(run(moves, paced(), 1.1 * kSlack * kPass, nap), 1.1 * kPass);
}

// A rank that has only triggers sends in listed order what is ready when it begins: all receivers have opened by then.
TEST(Nic, WhatIsReadyLeavesInListedOrder) {
  const Moves moves = moves_of(4, {{0, 2, 0, 22}, {0, 1, 0, 20}, {0, 3, 0, 22}});
  const double nap = 2e-3;
  const auto late = [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::duration<double>(nap));
  };
  const Ended ended = run(moves, paced(), 0, kNothing, late);
  EXPECT_LT(ended[2], nap + kSlack * kPass * 22 / kRows);
  EXPECT_LT(ended[1], nap + kSlack * kPass * 42 / kRows);
  EXPECT_GE(ended[3], nap + kPass);
}

// bf16 rows that become f32 where they land cross as bf16, and estimates know it.
TEST(Nic, NarrowValuesCrossNarrow) {
  Moves moves = moves_of(2, {{0, 1, 0, kRows}});
  moves.source = Dtype::bf16;
  const Plan plan = plan_of(moves);
  Cluster apart = default_cluster(1);
  apart.num_hosts = 2;
  const double narrow = estimate(plan, apart).comm_seconds;
  EXPECT_DOUBLE_EQ(narrow, kRows * kCols * 2 / apart.network.bytes_per_s);
  std::vector<bf16> x;
  for (std::int64_t i = 0; i < kRows * kCols; ++i) x.push_back(to_bf16(static_cast<float>(i % 250)));
  World::local(
      2,
      [&](World& world) {
        Op op = world.compile(plan, world.mesh({{"all", 2}}), "all");
        constexpr int kRuns = 20;  // the shortest counts: what is longer is up to the machine
        double seconds = 1e9;
        for (int i = 0; i < kRuns; ++i) {
          world.barrier();
          const std::int64_t start = now_ns();
          testing::run(op, x.data());
          op.output();
          seconds = std::min(seconds, static_cast<double>(now_ns() - start) * 1e-9);
        }
        const Matrix y = op.output();
        EXPECT_LT(seconds, 0.9 * kPass);
        for (std::int64_t i = 0; world.rank() == 1 && i < kRows * kCols; ++i)
          ASSERT_EQ(y.data[i], static_cast<float>(i % 250));
        EXPECT_EQ(op.sent().bytes, world.rank() == 0 ? kRuns * kRows * kCols * 2 : 0);
      },
      paced());
}

TEST(Nic, EstimatesPriceWhatIsRun) {
  const auto fabric_of = [](Fabric fabric) {
    Fabric seen{};
    World::local(
        1, [&](World& world) { seen = world.cluster(2).fabric; }, paced(1, fabric));
    return seen;
  };
  EXPECT_EQ(fabric_of(Fabric::nic), Fabric::nic);
  EXPECT_EQ(fabric_of(Fabric::pairs), Fabric::pairs);
}

}  // namespace
}  // namespace weft::testing
