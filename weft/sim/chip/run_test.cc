// The machine on a toy chip, checked by hand, and its promises on a larger one: exact counts, the same bits again,
// every device as one, results that do not follow the resolution, cost that follows tiles.
#include "weft/sim/chip/run.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/sim/chip/configuration.h"
#include "weft/sim/chip/toy_chip_test.h"

namespace weft::sim {
namespace {

constexpr const char* kAxis = "tp";

Chip paper_chip() {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
  return load_chip((root / "clusters/chips/t3-paper.json").string());
}

Plan fused(int devices, std::int64_t rows, std::int64_t cols, std::int64_t k, const Chip& chip) {
  return build(gemm({.m = rows, .n = cols, .k = k, .tile = {chip.tile_rows, chip.tile_cols}}),
               reduce_scatter(Mesh({{kAxis, devices}}), kAxis, {.route = Route::ring}));
}

CasePlans plans(int devices, std::int64_t rows, std::int64_t cols, std::int64_t k, const Chip& chip) {
  const Mesh mesh({{kAxis, devices}});
  const std::array<std::int64_t, 2> tile{chip.tile_rows, chip.tile_cols};
  CasePlans out;
  out.fused = fused(devices, rows, cols, k, chip);
  out.direct =
      build(gemm({.m = rows, .n = cols, .k = k, .tile = tile}), reduce_scatter(mesh, kAxis, {.route = Route::direct}));
  out.scatter =
      build(copy({.rows = rows, .cols = cols, .tile = tile}), reduce_scatter(mesh, kAxis, {.route = Route::ring}));
  const Producer part = copy({.rows = rows / devices, .cols = cols, .tile = tile});
  out.gather = build(part, all_gather(mesh, kAxis, {.route = Route::ring}));
  out.direct_gather = build(part, all_gather(mesh, kAxis, {.route = Route::direct}));
  return out;
}

// Two devices. Tile 0 is the neighbour's: its operands are read (2 us), it is made, and it leaves straight from the CU.
// Tile 1 needs only its rows, the columns are in the cache; it is stored as an update (2 us). The neighbour's tile left
// at 3, took 1 us and 2 of latency, and is added from 7 on, after the own update.
TEST(ToyChip, TwoDevicesAsCountedByHand) {
  const RunResult run = simulate(toy_plan(2), toy_chip(), {.mover = Mover::tracker, .slices = true});
  EXPECT_EQ(slices_text(run),
            "    0.000 -     3.000 us  cu 0    tile 0\n"
            "    0.000 -     2.000 us  memory  producer read 1024 B\n"
            "    3.000 -     5.000 us  cu 0    tile 1\n"
            "    3.000 -     4.000 us  memory  producer read 512 B\n"
            "    3.000 -     4.000 us  link    tile 0\n"
            "    5.000 -     7.000 us  memory  producer write 512 B\n"
            "    7.000 -     9.000 us  memory  collective write 512 B\n");
  EXPECT_EQ(run.end, 9'000'000);
}

// Three devices: tile 1 goes on by DMA once its own update (5 - 7) and the incoming one (8 - 10) are done. The read of
// the DMA comes after tile 2's own update, which was there first.
TEST(ToyChip, ThreeDevicesSendOnWhatIsComplete) {
  const RunResult run = simulate(toy_plan(3), toy_chip(), {.mover = Mover::tracker, .slices = true});
  EXPECT_EQ(slices_text(run),
            "    0.000 -     3.000 us  cu 0    tile 0\n"
            "    0.000 -     2.000 us  memory  producer read 1024 B\n"
            "    3.000 -     5.000 us  cu 0    tile 1\n"
            "    3.000 -     4.000 us  memory  producer read 512 B\n"
            "    3.000 -     4.000 us  link    tile 0\n"
            "    5.000 -     9.000 us  cu 0    tile 2\n"
            "    5.000 -     7.000 us  memory  producer write 512 B\n"
            "    7.000 -     8.000 us  memory  producer read 512 B\n"
            "    8.000 -    10.000 us  memory  collective write 512 B\n"
            "   10.000 -    12.000 us  memory  producer write 512 B\n"
            "   12.000 -    13.000 us  memory  collective read 512 B\n"
            "   13.000 -    14.000 us  link    tile 1\n"
            "   16.000 -    18.000 us  memory  collective write 512 B\n");
  EXPECT_EQ(run.end, 18'000'000);
}

// A collective's kernel: step 0 reads for 1 us and sends for 1; its tile is there 2 us later and written by 5; the last
// step reads both copies (2 us) and writes one.
TEST(ToyChip, ReduceScatterAloneInSteps) {
  const Plan plan = build(copy({.rows = 32, .cols = 16, .tile = {16, 16}}),
                          reduce_scatter(Mesh({{kAxis, 2}}), kAxis, {.route = Route::ring}));
  const RunResult run = simulate(plan, toy_chip(), {.waits = Waits::chunk, .slices = true});
  EXPECT_EQ(slices_text(run),
            "    0.000 -     1.000 us  memory  collective read 512 B\n"
            "    1.000 -     2.000 us  link    tile 0\n"
            "    4.000 -     5.000 us  memory  collective write 512 B\n"
            "    5.000 -     7.000 us  memory  collective read 1024 B\n"
            "    7.000 -     8.000 us  memory  collective write 512 B\n");
}

// A tile of four slices, 1 us each; operands come 3 us after they are asked for, and 1 ns is served per block. With two
// buffers each slice waits for its own; with four, three are on their way at once, and the fourth is asked for when the
// first begins.
TEST(ToyChip, SlicesAreAskedForAsFarAheadAsBuffersReach) {
  Chip chip = toy_chip();
  chip.dram_bytes_per_s = 512e9;
  chip.dram_latency_s = 3e-6;
  const Plan plan = build(gemm({.m = 16, .n = 16, .k = 64, .tile = {16, 16}}), keep());
  EXPECT_EQ(simulate(plan, chip, {}).producer_end, 13'008'000);
  chip.prefetch_slices = 3;
  EXPECT_EQ(simulate(plan, chip, {}).producer_end, 7'004'000);
  chip.prefetch_slices = kMaxPrefetch;
  EXPECT_EQ(simulate(plan, chip, {}).producer_end, 7'002'000);
}

TEST(Run, TrafficIsTheCountingModels) {
  const Chip chip = paper_chip();
  for (const int n : {8, 16}) {
    const std::int64_t rows = 128 * n, cols = 544;  // the last column of tiles is narrow: bytes are not padded
    const std::int64_t chunk = rows * cols * 2 / n;
    const CasePlans all = plans(n, rows, cols, 80, chip);
    Case one(all, chip, 2);
    const CaseTraffic before = one.run(Config::sequential).traffic, after = one.run(Config::t3).traffic;
    EXPECT_EQ(before.rs_read, (2 * n - 1) * chunk);
    EXPECT_EQ(after.rs_read, (n - 2) * chunk);
    EXPECT_EQ(before.gemm_write + before.rs_write, 2 * n * chunk);
    EXPECT_EQ(after.gemm_write + after.rs_write, 2 * (n - 1) * chunk);
    EXPECT_EQ(before.ag_read + before.ag_write, 2 * (n - 1) * chunk);
    const CaseTraffic direct = one.run(Config::direct).traffic;
    EXPECT_EQ(direct.rs_read, 0);  // nothing is read to be sent on
    EXPECT_EQ(direct.rs_write + direct.gemm_write, n * chunk);
  }
}

TEST(Run, TheSameInputGivesTheSameTrace) {
  const Chip chip = paper_chip();
  const Plan plan = fused(8, 1024, 512, 128, chip);
  const RunOptions options{.mover = Mover::tracker, .policy = Policy::mca, .slices = true};
  const RunResult first = simulate(plan, chip, options), second = simulate(plan, chip, options);
  EXPECT_EQ(slices_text(first), slices_text(second));
  EXPECT_EQ(first.events, second.events);
  EXPECT_GT(first.slices.size(), 100u);
}

TEST(Run, OneDeviceStandsForAll) {
  const Chip chip = paper_chip();
  const Plan ring = fused(4, 2048, 512, 256, chip);
  const CasePlans all = plans(4, 1024, 512, 64, chip);
  const RunOptions modes[] = {{.mover = Mover::tracker, .policy = Policy::round_robin},
                              {.mover = Mover::tracker, .policy = Policy::mca},
                              {.mover = Mover::cu, .policy = Policy::fifo}};
  for (const RunOptions& mode : modes)
    for (const Plan* plan : {&ring, &all.direct, &all.scatter, &all.gather}) {
      RunOptions every = mode;
      every.devices = Devices::every;
      const RunResult one = simulate(*plan, chip, mode), full = simulate(*plan, chip, every);
      EXPECT_EQ(one.end, full.end) << plan->name;
      EXPECT_EQ(one.bytes, full.bytes) << plan->name;
      EXPECT_GT(full.events, 3 * one.events) << plan->name;
    }
}

TEST(Run, HalvingTheBurstMovesNothingByAPercent) {
  Chip chip = paper_chip();
  const CasePlans all = plans(8, 8192, 1536, 768, chip);
  Chip finer = chip;
  finer.burst_bytes /= 2;
  Case coarse(all, chip, 2), fine(all, finer, 2);
  for (const Config config : kConfigs) {
    const CaseResult a = coarse.run(config), b = fine.run(config);
    EXPECT_NEAR(b.seconds / a.seconds, 1, 0.01) << to_string(config);
    EXPECT_NEAR(static_cast<double>(b.traffic.total()) / static_cast<double>(a.traffic.total()), 1, 0.01)
        << to_string(config);
  }
}

TEST(Run, CostIsLinearInTiles) {
  const Chip chip = paper_chip();
  const RunOptions options{.mover = Mover::tracker, .policy = Policy::mca};
  const RunResult small = simulate(fused(8, 16384, 1024, 256, chip), chip, options);
  const RunResult large = simulate(fused(8, 65536, 1024, 256, chip), chip, options);
  EXPECT_NEAR(static_cast<double>(large.events) / static_cast<double>(small.events), 4, 0.4);
}

TEST(Run, ScatterAloneMeetsTheRingBound) {
  const Chip chip = paper_chip();
  const std::int64_t rows = 16384, cols = 3072;
  const Plan plan = build(copy({.rows = rows, .cols = cols, .tile = {128, 128}}),
                          reduce_scatter(Mesh({{kAxis, 8}}), kAxis, {.route = Route::ring}));
  const double bound = 7 * (static_cast<double>(rows * cols * 2 / 8) / chip.link_bytes_per_s + chip.link_latency_s);
  EXPECT_NEAR(simulate(plan, chip, {}).seconds() / bound, 1, 0.06);
}

TEST(Run, MemoryPoliciesAreOrdered) {
  const Chip chip = paper_chip();
  const CasePlans all = plans(8, 8192, 1536, 768, chip);
  Case one(all, chip, 2);
  const double t3 = one.run(Config::t3).seconds, mca = one.run(Config::t3_mca).seconds;
  EXPECT_LT(mca, t3);
  EXPECT_LT(t3, one.run(Config::sequential).seconds * 1.1);
  EXPECT_LE(one.run(Config::ideal_nmc).seconds, one.run(Config::ideal_overlap).seconds);
}

TEST(Run, UnevenPartsNeedEveryDevice) {
  const Chip chip = toy_chip();
  const Plan plan = build(gemm({.m = 16 * 3 + 17, .n = 16, .k = 16, .tile = {16, 16}}),
                          reduce_scatter(Mesh({{kAxis, 4}}), kAxis, {.route = Route::ring}));
  EXPECT_THROW(simulate(plan, chip, {.mover = Mover::tracker}), Error);
  EXPECT_GT(simulate(plan, chip, {.mover = Mover::tracker, .devices = Devices::every}).end, 0);
}

}  // namespace
}  // namespace weft::sim
