#include "weft/study/sim/summary.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "weft/base/statistics.h"

namespace weft::sim {
namespace {

double percent(double ratio) { return (ratio - 1) * 100; }

Spread spread(Simulator& simulator, const std::vector<SimCase>& cases, Config config) {
  std::vector<double> values;
  for (const SimCase& one : cases) values.push_back(simulator.speedup(one, config));
  return {percent(geomean(values)), percent(largest(values))};
}

double nmc_gain(Simulator& simulator, const std::vector<SimCase>& cases, int tp) {
  std::vector<double> gains;
  for (const SimCase& one : cases)
    if (one.tp == tp)
      gains.push_back(simulator.run(one, Config::sequential).scatter_s /
                      simulator.run(one, Config::ideal_nmc).scatter_s);
  return gains.empty() ? 0 : percent(geomean(gains));
}

double read_gain(Simulator& simulator, const std::vector<SimCase>& cases, int tp) {
  std::vector<double> gains;
  for (const SimCase& one : cases)
    if (one.tp == tp)
      gains.push_back(static_cast<double>(simulator.run(one, Config::sequential).traffic.rs_read) /
                      static_cast<double>(simulator.run(one, Config::t3_mca).traffic.rs_read));
  return gains.empty() ? 0 : geomean(gains);
}

}  // namespace

SimSummary summary(Simulator& simulator, const std::vector<SimCase>& cases) {
  SimSummary out;
  out.ideal = spread(simulator, cases, Config::ideal_overlap);
  out.ideal_nmc = spread(simulator, cases, Config::ideal_nmc);
  out.t3 = spread(simulator, cases, Config::t3);
  out.t3_fifo = spread(simulator, cases, Config::t3_fifo);
  out.t3_mca = spread(simulator, cases, Config::t3_mca);
  std::vector<double> traffic, reads, writes;
  for (const SimCase& one : cases) {
    const auto& before = simulator.run(one, Config::sequential).traffic;
    const auto& after = simulator.run(one, Config::t3_mca).traffic;
    traffic.push_back(static_cast<double>(after.total()) / before.total());
    reads.push_back(static_cast<double>(before.gemm_read) / after.gemm_read);
    writes.push_back(static_cast<double>(after.gemm_write + after.rs_write) /
                     static_cast<double>(before.gemm_write + before.rs_write));
  }
  out.traffic_cut = (1 - geomean(traffic)) * 100;
  out.traffic_cut_max = (1 - *std::min_element(traffic.begin(), traffic.end())) * 100;
  out.gemm_reads = geomean(reads);
  out.write_cut = (1 - geomean(writes)) * 100;
  out.nmc_8 = nmc_gain(simulator, cases, 8);
  out.nmc_16 = nmc_gain(simulator, cases, 16);
  out.rs_reads_8 = read_gain(simulator, cases, 8);
  out.rs_reads_16 = read_gain(simulator, cases, 16);
  return out;
}

std::vector<PaperRow> paper_rows(const SimSummary& f, const SimSummary& p, const SimSummary& a) {
  return {{"Ideal-GEMM-RS-Overlap, geomean", "%", 35, f.ideal.geomean, p.ideal.geomean, a.ideal.geomean},
          {"Ideal-GEMM-RS-Overlap, max", "%", 50, f.ideal.max, p.ideal.max, a.ideal.max},
          {"T3-MCA, geomean", "%", 30, f.t3_mca.geomean, p.t3_mca.geomean, a.t3_mca.geomean},
          {"T3-MCA, max", "%", 47, f.t3_mca.max, p.t3_mca.max, a.t3_mca.max},
          {"T3, geomean", "%", 20, f.t3.geomean, p.t3.geomean, a.t3.geomean, true},
          {"T3, max", "%", 39, f.t3.max, p.t3.max, a.t3.max, true},
          {"DRAM traffic, fewer bytes, geomean", "%", 22, f.traffic_cut, p.traffic_cut, a.traffic_cut},
          {"DRAM traffic, fewer bytes, max", "%", 36, f.traffic_cut_max, p.traffic_cut_max, a.traffic_cut_max},
          {"GEMM reads, times fewer", "x", 1.56, f.gemm_reads, p.gemm_reads, a.gemm_reads},
          {"RS reads at TP 8, times fewer", "x", 2.5, f.rs_reads_8, p.rs_reads_8, a.rs_reads_8},
          {"RS reads at TP 16, times fewer", "x", 2.2, f.rs_reads_16, p.rs_reads_16, a.rs_reads_16},
          {"GEMM + RS writes, fewer bytes", "%", 10, f.write_cut, p.write_cut, a.write_cut},
          {"RS alone with NMC at TP 8", "%", 7, f.nmc_8, p.nmc_8, a.nmc_8},
          {"RS alone with NMC at TP 16", "%", 3, f.nmc_16, p.nmc_16, a.nmc_16}};
}

Counted counted(const SimShape& s) {
  const std::int64_t n = s.devices, chunk = s.m * s.n * s.element_bytes / n;
  return {(2 * n - 1) * chunk, (n - 2) * chunk, 2 * n * chunk, 2 * (n - 1) * chunk};
}

bool counts_agree(Simulator& simulator, const SimCase& one) {
  const auto &before = simulator.run(one, Config::sequential).traffic,
             &after = simulator.run(one, Config::t3_mca).traffic;
  const Counted want = counted(shape_of(one));
  return before.rs_read == want.sequential_rs_read && after.rs_read == want.t3_rs_read &&
         before.gemm_write + before.rs_write == want.sequential_write &&
         after.gemm_write + after.rs_write == want.t3_write;
}

std::vector<SimBar> sim_bars(Simulator& simulator, const SimSummary& a) {
  const std::vector<SimCase> cases = paper_cases();
  std::size_t exact = 0;
  double op = 10, above = -10, disorder = -10;
  for (const SimCase& one : cases) {
    exact += counts_agree(simulator, one) ? 1 : 0;
    const double ideal = simulator.speedup(one, Config::ideal_overlap), mca = simulator.speedup(one, Config::t3_mca);
    if (one.layer.name == "op") op = std::min(op, mca / ideal);
    above = std::max(above, (mca - ideal) * 100);
    disorder = std::max(disorder, (simulator.speedup(one, Config::t3) - mca) * 100);
  }
  const auto near = [](double seen, double want, double most) { return std::abs(seen - want) <= most; };
  const auto pair = [](const Spread& s) { return fmt::format("{:.1f} / {:.1f} %", s.geomean, s.max); };
  return {{"traffic counts of the counting model", "all cases, exactly", fmt::format("{} of {}", exact, cases.size()),
           exact == cases.size()},
          {"Ideal, geomean / max", "35 / 50 %, within 3", pair(a.ideal),
           near(a.ideal.geomean, 35, 3) && near(a.ideal.max, 50, 3)},
          {"T3-MCA, geomean / max", "30 / 47 %, within 4", pair(a.t3_mca),
           near(a.t3_mca.geomean, 30, 4) && near(a.t3_mca.max, 47, 4)},
          {"DRAM traffic", "-22 %, within 4", fmt::format("-{:.1f} %", a.traffic_cut), near(a.traffic_cut, 22, 4)},
          {"GEMM reads", "1.35 to 1.75 x fewer", fmt::format("{:.2f} x", a.gemm_reads),
           a.gemm_reads >= 1.35 && a.gemm_reads <= 1.75},
          {"T3 at most T3-MCA, every case", "<= 0 points", fmt::format("{:.1f}", disorder), disorder <= 0},
          {"T3-MCA above ideal, every case", "<= 3 points", fmt::format("{:.1f}", above), above <= 3},
          {"OP layers, T3-MCA to ideal", ">= 0.99", fmt::format("{:.3f}", op), op >= 0.99}};
}

}  // namespace weft::sim
