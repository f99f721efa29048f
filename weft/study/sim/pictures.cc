#include "weft/study/sim/pictures.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

#include "weft/base/units.h"
#include "weft/draw/bar_chart.h"
#include "weft/draw/heat_map.h"
#include "weft/draw/line_chart.h"

namespace weft::sim {
namespace {

constexpr double kBin = 40e-6;
constexpr double kPays = 1.05;  // less than this is not worth hardware

std::string label(const SimCase& one) { return fmt::format("{} {} {}", one.model, one.tp, one.layer.name); }

}  // namespace

std::string speedups_svg(Simulator& simulator) {
  draw::BarChart chart;
  chart.title = "GEMM, reduce-scatter and all-gather: speedup over sequential";
  chart.subtitle = fmt::format("chip {}; parameters frozen on mega-gpt-2, t-nlg and the models on 32 predicted",
                               simulator.chip().name);
  chart.y = {.label = "speedup", .min = 0.9};
  chart.base = 1;
  chart.series = {"T3, round robin", "T3, FIFO", "T3-MCA", "ideal overlap", "ideal with NMC"};
  std::vector<SimCase> cases = paper_cases();
  for (SimCase& one : large_cases()) cases.push_back(std::move(one));
  for (const SimCase& one : cases) {
    draw::BarGroup group{.name = label(one)};
    for (const Config config : {Config::t3, Config::t3_fifo, Config::t3_mca, Config::ideal_overlap, Config::ideal_nmc})
      group.values.push_back(simulator.speedup(one, config));
    chart.groups.push_back(std::move(group));
  }
  chart.width = 1280;
  chart.height = 500;
  return draw::bar_chart(chart);
}

std::string traffic_svg(Simulator& simulator) {
  draw::BarChart chart;
  chart.title = "DRAM traffic of one device by source: sequential, then T3-MCA";
  chart.subtitle = fmt::format("chip {}; left bar sequential, right bar T3-MCA", simulator.chip().name);
  chart.y = {.label = "MB", .min = 0.0};
  chart.bars = draw::Bars::stacked;
  chart.series = {"product reads", "product writes", "RS reads", "RS writes", "AG reads", "AG writes"};
  for (const SimCase& one : paper_cases())
    for (const Config config : {Config::sequential, Config::t3_mca}) {
      const CaseTraffic& t = simulator.run(one, config).traffic;
      draw::BarGroup group{.name = config == Config::sequential ? label(one) : ""};
      for (const std::int64_t bytes : {t.gemm_read, t.gemm_write, t.rs_read, t.rs_write, t.ag_read, t.ag_write})
        group.values.push_back(bytes * 1e-6);
      chart.groups.push_back(std::move(group));
    }
  chart.width = 1280;
  chart.height = 500;
  return draw::bar_chart(chart);
}

std::string over_time_svg(Simulator& simulator, const SimCase& one, Config config) {
  constexpr std::array<const char*, 4> kNames{"product reads", "product writes", "RS reads", "RS writes"};
  const RunResult run = simulator.fused(one, config, kBin, false);
  draw::LineChart chart;
  chart.title = fmt::format("{}: DRAM traffic over time, {}", label(one), to_string(config));
  chart.subtitle = fmt::format("chip {}; one device, until the reduce-scatter is done ({}); means over {}",
                               simulator.chip().name, format_duration(run.seconds()), format_duration(kBin));
  chart.x = {.label = "time", .unit = draw::Unit::seconds};
  chart.y = {.label = "GB/s", .min = 0.0};
  for (std::size_t c = 0; c < kNames.size(); ++c) {
    draw::Series series{.name = kNames[c]};
    for (std::size_t b = 0; b < run.bins.size(); ++b)
      series.samples.push_back({(static_cast<double>(b) + 0.5) * kBin, run.bins[b][c] / kBin * 1e-9});
    chart.series.push_back(std::move(series));
  }
  chart.width = 1080;
  return draw::line_chart(chart);
}

std::string band_svg(const T3Band& band) {
  draw::HeatMap map;
  map.grid.title = "Plain T3: geomean speedup over the 16 cases, percent";
  map.grid.subtitle = fmt::format(
      "The paper has 20 %. First come first served instead of round robin: {:.1f} %. What decides it is how often the "
      "two "
      "streams alternate and what that costs.",
      band.fifo.geomean);
  map.grid.x_label = "grant of round robin";
  map.grid.y_label = "switch cost";
  for (const double bytes : band.grant_bytes) map.grid.x_ticks.push_back(format_bytes(bytes));
  for (const double ns : band.switch_ns) map.grid.y_ticks.push_back(fmt::format("{:.0f} ns", ns));
  for (const Spread& cell : band.cells) map.values.push_back(cell.geomean);
  map.middle = 20;
  map.decimals = 1;
  map.value_label = "percent over sequential; blue is above the paper's 20";
  return draw::heat_map(map);
}

std::string sweep_svg(const Sweep& sweep, const std::string& chip) {
  draw::RegimeMap map;
  map.grid.title = fmt::format("What pays for {}", label(sweep.layer));
  map.grid.subtitle = fmt::format(
      "Chip {} with other links and CUs. Speedup over sequential of the winner; copy engines win where they come "
      "within "
      "5 % of T3-MCA, nothing where neither gains 5 %.",
      chip);
  map.grid.x_label = "link rate, one direction";
  map.grid.y_label = "CUs";
  map.winners = {"nothing", "copy engines", "T3-MCA"};
  for (const double link : sweep.links) map.grid.x_ticks.push_back(format_rate(link));
  for (const int cus : sweep.cus) map.grid.y_ticks.push_back(fmt::format("{}", cus));
  for (const SweepCell& cell : sweep.cells) {
    const bool none = cell.t3_mca < kPays && cell.copy_engine < kPays;
    const bool copies = cell.copy_engine >= kPays && cell.copy_engine * kPays >= cell.t3_mca;
    const double best = copies ? cell.copy_engine : cell.t3_mca;
    map.cells.push_back({none     ? 0
                         : copies ? 1
                                  : 2,
                         none ? 0.2 : std::min(1.0, (best - 1) * 2), fmt::format("{:.2f}x", best)});
  }
  return draw::regime_map(map);
}

}  // namespace weft::sim
