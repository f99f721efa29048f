// Times that can be written down: collectives on networks without surprises. S bytes, N ranks, rate B, latency a per
// link, packet P. Plans open their outputs first, which an exchange waits for: two latencies more.
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "weft/plan/plans_test.h"
#include "weft/sim/net/run.h"

namespace weft::netsim {
namespace {

constexpr double kRate = 50e9, kLatency = 500e-9;
const Link kWire{kRate, kLatency};

Space alone(int ranks, SpaceKind kind) {
  Space space = testing_plans::space_of(ranks, kind);
  space.options.slices = 1;
  return space;
}

// 64 MiB in one tile per chunk.
Producer chunks(int ranks) {
  const std::int64_t rows = 4096, cols = 4096;
  return validated(copy({.rows = rows, .cols = cols, .tile = {rows / ranks, cols}}), ranks);
}
constexpr double kBytes = 4096.0 * 4096 * 4;

// Within 0.1 % where packets have no length, within 0.5 % where they have.
void expect_time(const Plan& plan, Topology topology, const std::function<double(double packet)>& closed) {
  for (const std::int64_t packet : {0, 4096}) {
    topology.packet_bytes = packet;
    const double expected = closed(static_cast<double>(packet) / kRate);
    EXPECT_NEAR(simulate(plan, topology).seconds(), expected, expected * (packet == 0 ? 0.001 : 0.005))
        << plan.name << " on " << topology.name << " of " << plan.num_ranks;
  }
}

TEST(ClosedForm, RingOnARingAndThroughASwitch) {
  for (const int n : {8, 16, 64, 256, 1024}) {
    const Plan plan = build_all_reduce(chunks(n), alone(n, SpaceKind::all_reduce), Route::ring);
    const double chunk = kBytes / n / kRate;
    expect_time(plan, ring_topology(n, kWire), [&](double) { return 2 * (n - 1) * (chunk + kLatency); });
    expect_time(plan, switch_topology(n, kWire),
                [&](double packet) { return 2 * (n - 1) * (chunk + 2 * kLatency + packet); });
  }
}

TEST(ClosedForm, AllToAllThroughASwitch) {
  for (const int n : {8, 32, 128, 1024}) {
    const std::int64_t rows = 64;
    const Producer p = validated(copy({.rows = rows * n, .cols = 256, .tile = {rows, 256}}), n);
    const Plan plan = build_all_to_all(p, alone(n, SpaceKind::all_to_all));
    const double pair = static_cast<double>(rows) * 256 * 4 / kRate;
    expect_time(plan, switch_topology(n, kWire), [&](double packet) { return (n - 1) * pair + 4 * kLatency + packet; });
  }
}

// Direct to the owners and back. Each half fills the links for (N - 1) / N of the bytes.
TEST(ClosedForm, TwoShotThroughASwitch) {
  for (const int n : {8, 64, 512}) {
    const Plan plan = build_all_reduce(chunks(n), alone(n, SpaceKind::all_reduce), Route::two_shot);
    expect_time(plan, switch_topology(n, kWire),
                [&](double packet) { return 2 * (n - 1) * (kBytes / n / kRate) + 4 * kLatency + 2 * packet; });
  }
}

// 2 log2 N messages, each of all that a round exchanges.
TEST(ClosedForm, HalvingDoublingThroughASwitch) {
  for (const int n : {8, 64, 256, 1024}) {
    const Plan plan = build_all_reduce(chunks(n), alone(n, SpaceKind::all_reduce), Route::halving_doubling);
    Topology topology = switch_topology(n, kWire);
    for (const std::int64_t packet : {0, 4096}) {
      topology.packet_bytes = packet;
      const double closed =
          2 * (1 - 1.0 / n) * kBytes / kRate + 2 * std::log2(n) * (2 * kLatency + static_cast<double>(packet) / kRate);
      const NetResult result = simulate(plan, topology, {{n}});
      EXPECT_NEAR(result.seconds(), closed, closed * (packet == 0 ? 0.001 : 0.005)) << n << " ranks";
      EXPECT_EQ(result.messages, std::int64_t{2} * n * std::llround(std::log2(n)));
      EXPECT_EQ(result.simulated, 1);  // whole rounds are alike on all ranks
      if (n <= 256) {
        EXPECT_EQ(simulate(plan, topology, {{n}, Ranks::every}).end, result.end);
      }
      if (n <= 64) {
        EXPECT_LT(simulate(plan, topology).seconds(), closed);  // tile by tile, rounds overlap
      }
    }
  }
}

// Dimension by dimension and back: no later than one after the other, no sooner than the bytes of the last dimension,
// which is gone along first and has most. Ranks fold to one.
TEST(ClosedForm, TorusOnATorus) {
  for (const std::vector<int>& dims : {std::vector<int>{4, 2}, {16, 8}, {32, 32}, {4, 4, 4}, {8, 4, 2}, {2, 4, 2, 4}}) {
    const int n = std::accumulate(dims.begin(), dims.end(), 1, std::multiplies<>());
    Space space = alone(n, SpaceKind::all_reduce);
    space.options.torus = dims;
    const Plan plan = build_all_reduce(chunks(n), space, Route::torus);
    Topology topology = torus_topology(dims, std::vector<Link>(dims.size(), kWire));
    topology.packet_bytes = 0;
    double all = 0, block = kBytes;
    for (std::size_t d = dims.size(); d-- > 0;) {
      block /= dims[d];
      all += (dims[d] - 1) * (block / kRate + kLatency);
    }
    const NetResult result = simulate(plan, topology);
    EXPECT_LE(result.seconds(), 2 * all * 1.001);
    EXPECT_GE(result.seconds(), 2 * (dims.back() - 1) * (kBytes / dims.back() / kRate));
    EXPECT_EQ(result.simulated, 1) << fmt::format("{}", fmt::join(dims, " x "));
    if (n <= 128) {
      EXPECT_EQ(simulate(plan, topology, {{}, Ranks::every}).end, result.end);
    }
  }
}

// Inside a host the ranks of a place are folded and spread at its own rate; between hosts each rank sends a partial sum
// to every other host and gets as many, then the same with sums. Where the inside takes no time, the rails are left.
TEST(ClosedForm, TwoLevelOnRails) {
  for (const auto& [hosts, g] : {std::pair{2, 4}, {8, 8}, {16, 8}, {128, 8}}) {
    const int n = hosts * g;
    const Plan plan = build_two_level_all_reduce(chunks(n), alone(n, SpaceKind::all_reduce), g);
    const Link inside{1e18, 0};
    expect_time(plan, rails_topology(hosts, g, inside, kWire), [&, hosts = hosts](double packet) {
      return 2 * (hosts - 1) * (kBytes / n / kRate) + 4 * kLatency + 2 * packet;
    });
  }
}

// Leaves of 32 with half as many uplinks: what leaves a leaf takes twice as long as its ranks could send it.
TEST(ClosedForm, AllToAllOnAClosIsNearTheBoundOfItsUplinks) {
  const int n = 1024, leaf = 32;
  const std::int64_t rows = 16;
  const Producer p = validated(copy({.rows = rows * n, .cols = 256, .tile = {rows, 256}}), n);
  const Plan plan = build_all_to_all(p, alone(n, SpaceKind::all_to_all));
  const Topology clos =
      clos_topology({.ranks = n, .ranks_per_leaf = leaf, .num_spines = leaf / 2, .link = kWire, .uplink = kWire});
  const NetResult result = simulate(plan, clos);
  const double bound = leaf * (n - leaf) * static_cast<double>(rows) * 256 * 4 / (kRate * leaf / 2);
  EXPECT_NEAR(sim::to_seconds(result.bound), bound, 1e-9);
  EXPECT_LT(result.seconds(), 1.02 * bound);
  EXPECT_EQ(result.simulated, leaf);
}

TEST(ClosedForm, AllToAllOnATorusIsNearTheBoundOfItsLinks) {
  const int n = 128;
  const std::int64_t rows = 64;
  const Producer p = validated(copy({.rows = rows * n, .cols = 1024, .tile = {rows, 1024}}), n);
  const Plan plan = build_all_to_all(p, alone(n, SpaceKind::all_to_all));
  const NetResult result = simulate(plan, torus_topology({16, 8}, {kWire, kWire}));
  const double volume = static_cast<double>(rows) * n * 1024 * 4;
  // Where both ways are as short all go upwards: 1 + 2 + ... + 8 ranks' messages to 8 places cross a link.
  EXPECT_NEAR(sim::to_seconds(result.bound), 36.0 * 8 / n * volume / kRate, 1e-6 * volume / kRate);
  EXPECT_LT(result.seconds(), 1.10 * sim::to_seconds(result.bound));
}

// 128 ranks, leaves of 16: messages of 64 KiB, whole or as sixteen packets of their own.
TEST(ClosedForm, PacketsThroughTheSameEngineTakeAsLong) {
  const int n = 128, leaf = 16;
  const Producer whole = validated(copy({.rows = 64 * n, .cols = 256, .tile = {64, 256}}), n);
  const Producer packets = validated(copy({.rows = 64 * n, .cols = 256, .tile = {4, 256}}), n);
  Topology clos =
      clos_topology({.ranks = n, .ranks_per_leaf = leaf, .num_spines = leaf / 2, .link = kWire, .uplink = kWire});
  const NetResult messages = simulate(build_all_to_all(whole, alone(n, SpaceKind::all_to_all)), clos);
  clos.packet_bytes = kWholeMessage;
  const NetResult alone_each = simulate(build_all_to_all(packets, alone(n, SpaceKind::all_to_all)), clos);
  EXPECT_EQ(alone_each.messages, 16 * messages.messages);
  EXPECT_NEAR(alone_each.seconds(), messages.seconds(), 0.005 * messages.seconds());
}

// ASTRA-sim's own network tests: chunks of 1 MiB are stored at every link, GB is 2^30, 16 ranks. It cuts times to ns.
TEST(ClosedForm, AstraSimsNetworkTests) {
  const Link link{50.0 * (1 << 30), 500e-9};
  // One tile of 1 MiB from rank 1 to rank 4, as a plan of two rules.
  const auto one_message = [&](Topology topology) {
    topology.packet_bytes = kWholeMessage;
    Draft draft("one message", Route::direct, validated(copy({.rows = 256, .cols = 1024, .tile = {256, 1024}}), 16),
                16);
    const int y = draft.output(var::m, var::n), got = draft.counter("got", 1, eq(var::r, 4));
    Rule send = draft.step("send", rows(0, var::m));
    send.when = eq(var::r, 1);
    send.targets = {piece(y, rows(0, var::m)).of(4)};
    send.signals = {signal(4, got)};
    draft.add(send);
    Rule arrive = draft.trigger("arrive");
    arrive.when = eq(var::r, 4);
    arrive.waits = {wait(got)};
    draft.add(arrive);
    return simulate(draft.plan, topology).seconds() * 1e9;
  };
  EXPECT_NEAR(one_message(ring_topology(16, link)), 60093, 20);
  EXPECT_NEAR(one_message(full_topology(16, link)), 20031, 20);
  EXPECT_NEAR(one_message(switch_topology(16, link)), 40062, 20);
  // All pairs on the ring at once: an exchange of 1 MiB a pair whose outputs are open.
  Draft draft("all pairs", Route::direct, validated(copy({.rows = 256, .cols = 1024, .tile = {256, 1024}}), 16), 16);
  const int y = draft.output(var::N * var::m, var::n), got = draft.counter("got", 1, var::N - 1);
  Rule send = draft.step("send", rows(0, var::m));
  send.count = var::N - 1;
  const Expr to = (var::r + 1 + var::s) % var::N;
  send.targets = {piece(y, rows(var::r * var::m, var::r * var::m + var::m)).of(to)};
  send.signals = {signal(to, got)};
  draft.add(send);
  Rule arrive = draft.trigger("arrive");
  arrive.waits = {wait(got).reaches(var::N - 1)};
  draft.add(arrive);
  Topology ring = ring_topology(16, link);
  ring.packet_bytes = kWholeMessage;
  EXPECT_NEAR(simulate(draft.plan, ring).seconds() * 1e9, 704116, 20);
}

// An event per hop and message, and no more work for a hop when there are more of them.
TEST(ClosedForm, EventsAreLinearInHops) {
  for (const int n : {16, 64, 256}) {
    const Plan plan = build_all_reduce(chunks(n), alone(n, SpaceKind::all_reduce), Route::ring);
    const NetResult ring = simulate(plan, ring_topology(n, kWire), {{}, Ranks::every});
    EXPECT_EQ(ring.hops, std::int64_t{2} * n * (n - 1));
    EXPECT_LE(ring.events, ring.hops + 3 * n);
    EXPECT_EQ(simulate(plan, switch_topology(n, kWire), {{}, Ranks::every}).hops, 2 * ring.hops);
  }
}

}  // namespace
}  // namespace weft::netsim
