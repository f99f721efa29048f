// Times that are made up from known rates give these rates back; times that say nothing give rates that a file may
// hold.
#include "weft/study/calibrate/solve.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "weft/plan/price/cost.h"

namespace weft::calibrating {
namespace {

constexpr double kF = sizeof(float);

double pass(double a, double b) { return std::max(a, b) + estimating::kExposed * std::min(a, b); }

// What the trials would take on a machine of these rates, by the terms of the estimate.
TrialSeconds seconds_on(const Cluster& c) {
  TrialSeconds t{};
  t[one_tile] = c.step_s + c.run_s;
  t[many_tiles] = kTiles * c.step_s + c.run_s;
  t[ping_pong] = 2 * c.signal_s;
  const double hot = kHotLong * kHotFew * kF / c.cache_bytes_per_s;
  t[hot_long] = hot + kHotFew * c.row_s + c.step_s + c.run_s;
  t[hot_short] = hot + kHotMany * c.row_s + c.step_s + c.run_s;
  t[long_rows] = kLongRows * kLongRow * kF / c.read_bytes_per_s + kLongRows * (c.row_s + c.step_s / 256) + c.run_s;
  const double elements = kSide * kSide, bytes = elements * kF;
  const double for_each_k = 2 * elements / c.flops_per_s + 2 * kSide * kF / c.read_bytes_per_s;
  const double around = elements / (64 * 64) * c.step_s + c.run_s + bytes / c.tile_bytes_per_s;
  t[brief_gemm] = kBriefK * for_each_k + around;
  t[full_gemm] = kFullK * for_each_k + around;
  const double tiles = elements / 16384 * c.step_s + c.run_s;
  const double read = bytes / c.read_bytes_per_s, write = bytes / c.write_bytes_per_s;
  t[copied] = tiles + pass(read, write);
  t[scattered] = tiles + pass(read, write / 2) + pass(read / 2, bytes / 2 / c.local.bytes_per_s);
  const double bags = kTables * kBatch, row = kDim * kF;
  const double known = c.step_s / 64 + c.run_s / bags + estimating::kExposed * row / c.write_bytes_per_s;
  t[lookup] = bags * (known + row * kPooled / c.gather_bytes_per_s);
  t[hot_lookup] = bags * (known + row * kPooled / c.gather_cached_bytes_per_s);
  return t;
}

Cluster known_machine() {
  Cluster c = default_cluster();
  c.step_s = 2e-7, c.run_s = 3e-6, c.row_s = 4e-9, c.signal_s = 1.5e-7;
  c.cache_bytes_per_s = 60e9, c.read_bytes_per_s = 11e9, c.write_bytes_per_s = 7e9, c.tile_bytes_per_s = 5e9;
  c.flops_per_s = 90e9, c.local.bytes_per_s = 4e9, c.gather_bytes_per_s = 3e9, c.gather_cached_bytes_per_s = 20e9;
  return c;
}

TEST(CalibrateSolve, GivesBackTheRatesThatMadeTheTimes) {
  const Cluster made = known_machine();
  Cluster found = default_cluster();
  solve_rates(seconds_on(made), &found);
  const auto near = [](double a, double b, const char* what) { EXPECT_NEAR(a / b, 1, 0.02) << what; };
  near(found.step_s, made.step_s, "step");
  near(found.run_s, made.run_s, "run");
  near(found.row_s, made.row_s, "row");
  near(found.signal_s, made.signal_s, "signal");
  near(found.local.latency_s, made.signal_s, "latency");
  near(found.cache_bytes_per_s, made.cache_bytes_per_s, "cache");
  near(found.read_bytes_per_s, made.read_bytes_per_s, "read");
  near(found.write_bytes_per_s, made.write_bytes_per_s, "write");
  near(found.tile_bytes_per_s, made.tile_bytes_per_s, "tile");
  near(found.flops_per_s, made.flops_per_s, "flops");
  near(found.local.bytes_per_s, made.local.bytes_per_s, "peer");
  near(found.gather_bytes_per_s, made.gather_bytes_per_s, "gather");
  near(found.gather_cached_bytes_per_s, made.gather_cached_bytes_per_s, "cached gather");
}

TEST(CalibrateSolve, TheFasterLibraryIsKnownByItsRate) {
  const Cluster made = known_machine();
  TrialSeconds t = seconds_on(made);
  Cluster found = default_cluster();
  solve_rates(t, &found);
  EXPECT_EQ(found.library_flops_per_s, 0) << "no library, no rate";
  const auto product = [&](double k, double flops) {
    const double elements = kSide * kSide;
    return k * (2 * elements / flops + 2 * kSide * kF / made.read_bytes_per_s) + elements * kF / made.tile_bytes_per_s;
  };
  t[brief_onednn] = product(kBriefK, 80e9), t[full_onednn] = product(kFullK, 80e9);
  solve_rates(t, &found);
  EXPECT_NEAR(found.library_flops_per_s / 80e9, 1, 0.02);
  EXPECT_NEAR(found.fastest_flops_per_s() / 90e9, 1, 0.02) << "Weft's own is faster";
  t[brief_openblas] = product(kBriefK, 120e9), t[full_openblas] = product(kFullK, 120e9);
  solve_rates(t, &found);
  EXPECT_NEAR(found.fastest_flops_per_s() / 120e9, 1, 0.02);
  t[brief_openblas] = t[full_openblas];  // the brief one was disturbed
  solve_rates(t, &found);
  EXPECT_LE(found.library_flops_per_s, 1.3 * 2 * kSide * kSide * kFullK / t[full_openblas]);
}

TEST(CalibrateSolve, NoiseNeverMakesARateThatNoFileMayHold) {
  TrialSeconds upside_down = seconds_on(known_machine());
  std::reverse(upside_down.begin(), upside_down.end());
  for (const TrialSeconds& times : {TrialSeconds{}, upside_down}) {
    Cluster c = default_cluster();
    solve_rates(times, &c);
    for (const double value : {c.step_s, c.run_s, c.row_s, c.signal_s, c.local.latency_s, c.flops_per_s,
                               c.read_bytes_per_s, c.write_bytes_per_s, c.tile_bytes_per_s, c.cache_bytes_per_s,
                               c.gather_bytes_per_s, c.gather_cached_bytes_per_s, c.local.bytes_per_s}) {
      EXPECT_TRUE(std::isfinite(value));
      EXPECT_GT(value, 0);
    }
  }
}

}  // namespace
}  // namespace weft::calibrating
