#include "weft/study/sim/study.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/statistics.h"
#include "weft/collective/build.h"

namespace weft::sim {
namespace {

// The paper measured reduce-scatter alone on four devices.
constexpr int kAloneDevices[] = {4, 8};
constexpr std::int64_t kAloneMegabytes[] = {6, 12, 24, 48, 96, 192};
constexpr std::int64_t kAloneColumns = 2048;

// Parameters of which most are whole numbers or matter in steps: these are moved too, though they are not free.
constexpr std::string_view kAlsoMoved[] = {"llc_bytes", "llc_latency", "dram_rate", "link_rate",      "link_latency",
                                           "cus",       "tile_k",      "dma_bytes", "tracker_entries"};

}  // namespace

// Sequential does not contend for memory, so neither parameter moves it: it is simulated once.
T3Band t3_band(const Chip& chip) {
  T3Band band{.switch_ns = {0, 5, 10, 20}, .grant_bytes = {1024, 2048, 4096, 8192, 16384}};
  const std::vector<SimCase> cases = paper_cases();
  Simulator plain(chip);
  for (const double ns : band.switch_ns)
    for (const double bytes : band.grant_bytes) {
      Chip changed = chip;
      set_knob(&changed, "stream_switch", ns * 1e-9);
      set_knob(&changed, "grant_bytes", bytes);
      Simulator simulator(changed);
      std::vector<double> speedups;
      for (const SimCase& one : cases)
        speedups.push_back(plain.run(one, Config::sequential).seconds / simulator.run(one, Config::t3).seconds);
      band.cells.push_back({(geomean(speedups) - 1) * 100, (largest(speedups) - 1) * 100});
    }
  const auto by_geomean = [](const Spread& a, const Spread& b) { return a.geomean < b.geomean; };
  const auto [low, high] = std::minmax_element(band.cells.begin(), band.cells.end(), by_geomean);
  band.low = low->geomean, band.high = high->geomean;
  std::vector<double> fifo;
  for (const SimCase& one : cases) fifo.push_back(plain.speedup(one, Config::t3_fifo));
  band.fifo = {(geomean(fifo) - 1) * 100, (largest(fifo) - 1) * 100};
  return band;
}

std::vector<ScatterAlone> scatter_alone(const Chip& chip) {
  std::vector<ScatterAlone> out;
  for (const int devices : kAloneDevices)
    for (const std::int64_t megabytes : kAloneMegabytes) {
      const std::int64_t tile_rows = chip.tile_rows * devices;
      const std::int64_t rows = ceil_div(megabytes * 1'000'000 / 2 / kAloneColumns, tile_rows) * tile_rows;
      const Plan plan = build(copy({.rows = rows, .cols = kAloneColumns, .tile = {chip.tile_rows, chip.tile_cols}}),
                              reduce_scatter(Mesh({{"tp", devices}}), "tp", {.route = Route::ring}));
      ScatterAlone one{.bytes = rows * kAloneColumns * 2, .devices = devices};
      const double chunk = static_cast<double>(one.bytes) / devices;
      one.bound_us = (devices - 1) * (chunk / chip.link_bytes_per_s + chip.link_latency_s) * 1e6;
      one.steps_us = simulate(plan, chip, {.waits = Waits::chunk}).seconds() * 1e6;
      one.tiles_us = simulate(plan, chip, {}).seconds() * 1e6;
      one.nmc_us = simulate(plan, chip, {.mover = Mover::tracker}).seconds() * 1e6;
      out.push_back(one);
    }
  return out;
}

std::vector<Sensitivity> sensitivities(const Chip& chip) {
  std::vector<Sensitivity> out;
  const std::vector<SimCase> cases = paper_cases();
  for (const Knob& one : knobs()) {
    const bool also = std::find(std::begin(kAlsoMoved), std::end(kAlsoMoved), one.key) != std::end(kAlsoMoved);
    if (!one.free && !also) continue;
    Sensitivity made{.key = std::string(one.key), .free = one.free, .value = knob(chip, one.key)};
    const auto with = [&](double factor) {
      Chip changed = chip;
      double value = made.value * factor;
      if (one.key == "gemm_efficiency") value = std::min(value, 1.0);
      if (one.key == "tracker_entries") value = std::round(value / chip.tracker_ways) * chip.tracker_ways;
      set_knob(&changed, one.key, value);
      Simulator simulator(changed);
      return summary(simulator, cases);
    };
    made.lower = with(0.8);
    made.higher = with(1.2);
    out.push_back(std::move(made));
  }
  return out;
}

}  // namespace weft::sim
