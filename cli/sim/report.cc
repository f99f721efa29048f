#include "cli/sim/report.h"

#include <fmt/core.h>

#include "weft/base/units.h"
#include "weft/draw/text_table.h"

namespace weft::cli::sim {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kFrozenChip = "t3-paper";  // on which parameters were frozen and bars are set

std::string figure(double value, const std::string& unit) {
  return unit == "x" ? fmt::format("{:.2f} x", value) : fmt::format("{:.1f} %", value);
}

std::string shown(Config config) {
  std::string name(to_string(config));
  for (char& c : name)
    if (c == '_') c = '-';
  return name;
}

}  // namespace

std::string cases_text(Simulator& simulator, const std::vector<SimCase>& cases, const std::vector<Config>& configs) {
  Rows rows{{"sub-layer", "tp", "sequential"}};
  for (const Config config : configs)
    if (config != Config::sequential) rows[0].push_back(shown(config));
  rows[0].push_back("DRAM bytes");
  for (const SimCase& one : cases) {
    const auto& before = simulator.run(one, Config::sequential);
    const auto& after = simulator.run(one, Config::t3_mca);
    std::vector<std::string> row{one.model + " " + one.layer.name, fmt::format("{}", one.tp),
                                 format_duration(before.seconds)};
    for (const Config config : configs)
      if (config != Config::sequential) row.push_back(fmt::format("{:.3f}", simulator.speedup(one, config)));
    const double cut = 1 - static_cast<double>(after.traffic.total()) / before.traffic.total();
    row.push_back(fmt::format("-{:.1f} %", cut * 100));
    rows.push_back(std::move(row));
  }
  return draw::aligned(rows, draw::Last::number);
}

std::string paper_text(Simulator& simulator) {
  const SimSummary fitted = summary(simulator, fitted_cases()), predicted = summary(simulator, predicted_cases());
  const SimSummary all = summary(simulator, paper_cases());
  Rows rows{{"figure", "paper", "fitted", "error", "predicted", "error", "all 16"}};
  for (const PaperRow& row : paper_rows(fitted, predicted, all)) {
    const auto error = [&](double ours) {
      return row.unit == "x" ? fmt::format("{:+.2f}", ours - row.paper) : fmt::format("{:+.1f}", ours - row.paper);
    };
    rows.push_back({row.what, figure(row.paper, row.unit), figure(row.fitted, row.unit), error(row.fitted),
                    figure(row.predicted, row.unit), error(row.predicted), figure(row.all, row.unit)});
  }
  if (simulator.chip().name != kFrozenChip)
    return fmt::format("The same figures on chip {}; the paper's, for its own chip, stand beside them.\n",
                       simulator.chip().name) +
           draw::aligned(rows, draw::Last::number);
  Rows bars{{"must hold", "to reach", "seen", "met"}};
  for (const SimBar& bar : sim_bars(simulator, all))
    bars.push_back({bar.what, bar.target, bar.seen, bar.met ? "yes" : "no"});
  return "Paper and ours. Free parameters were frozen on Mega-GPT-2 (fitted); T-NLG is predicted. The paper's figures "
         "are "
         "over all 16 cases.\n" +
         draw::aligned(rows, draw::Last::number) + "\n" + draw::aligned(bars, draw::Last::number);
}

std::string band_text(const T3Band& band) {
  Rows rows{{"switch cost"}};
  for (const double bytes : band.grant_bytes) rows[0].push_back(fmt::format("grant {}", format_bytes(bytes)));
  for (std::size_t r = 0; r < band.switch_ns.size(); ++r) {
    std::vector<std::string> row{fmt::format("{:.0f} ns", band.switch_ns[r])};
    for (std::size_t c = 0; c < band.grant_bytes.size(); ++c) {
      const Spread& cell = band.cells[r * band.grant_bytes.size() + c];
      row.push_back(fmt::format("{:.1f} / {:.1f}", cell.geomean, cell.max));
    }
    rows.push_back(std::move(row));
  }
  return fmt::format(
             "Plain T3 over the 16 cases, geomean / max in percent; the paper has 20 / 39. First come first served "
             "instead of round robin: {:.1f} / {:.1f}.\n",
             band.fifo.geomean, band.fifo.max) +
         draw::aligned(rows, draw::Last::number);
}

std::string scatter_text(const std::vector<ScatterAlone>& all) {
  Rows rows{{"bytes", "devices", "ring bound", "tile by tile", "over bound", "in steps", "with NMC"}};
  for (const ScatterAlone& one : all)
    rows.push_back({format_bytes(one.bytes), fmt::format("{}", one.devices), format_duration(one.bound_us * 1e-6),
                    format_duration(one.tiles_us * 1e-6),
                    fmt::format("{:+.1f} %", (one.tiles_us / one.bound_us - 1) * 100),
                    format_duration(one.steps_us * 1e-6), format_duration(one.nmc_us * 1e-6)});
  return draw::aligned(rows, draw::Last::number);
}

std::string sensitivity_text(Simulator& simulator, const std::vector<Sensitivity>& all) {
  const SimSummary now = summary(simulator, paper_cases());
  Rows rows{{"parameter", "value", "ideal -20 %", "+20 %", "t3-mca -20 %", "+20 %", "t3 -20 %", "+20 %"}};
  const auto cell = [](double value, double base) { return fmt::format("{:.1f} ({:+.1f})", value, value - base); };
  for (const Sensitivity& one : all)
    rows.push_back({one.key + (one.free ? " (free)" : ""), fmt::format("{:.4g}", one.value),
                    cell(one.lower.ideal.geomean, now.ideal.geomean), cell(one.higher.ideal.geomean, now.ideal.geomean),
                    cell(one.lower.t3_mca.geomean, now.t3_mca.geomean),
                    cell(one.higher.t3_mca.geomean, now.t3_mca.geomean), cell(one.lower.t3.geomean, now.t3.geomean),
                    cell(one.higher.t3.geomean, now.t3.geomean)});
  return fmt::format("Geomeans over the 16 cases in percent; now ideal {:.1f}, t3-mca {:.1f}, t3 {:.1f}.\n",
                     now.ideal.geomean, now.t3_mca.geomean, now.t3.geomean) +
         draw::aligned(rows, draw::Last::number);
}

std::string sweep_text(const Sweep& sweep) {
  Rows rows{{"CUs"}};
  for (const double link : sweep.links) rows[0].push_back(format_rate(link));
  for (std::size_t r = 0; r < sweep.cus.size(); ++r) {
    std::vector<std::string> row{fmt::format("{}", sweep.cus[r])};
    for (std::size_t c = 0; c < sweep.links.size(); ++c) {
      const SweepCell& cell = sweep.cells[r * sweep.links.size() + c];
      row.push_back(fmt::format("{:.2f} / {:.2f}", cell.t3_mca, cell.copy_engine));
    }
    rows.push_back(std::move(row));
  }
  return fmt::format("{} {} on {}: speedup of T3-MCA / of copy engines over sequential.\n", sweep.layer.model,
                     sweep.layer.layer.name, sweep.layer.tp) +
         draw::aligned(rows, draw::Last::number);
}

std::string one_case_text(Simulator& simulator, const SimCase& one, Config config) {
  const auto &before = simulator.run(one, Config::sequential), &run = simulator.run(one, config);
  const SimShape shape = shape_of(one);
  const auto bytes = [](std::int64_t value) { return format_bytes(value); };
  Rows rows{
      {"", "sequential", shown(config)},
      {"time", format_duration(before.seconds), format_duration(run.seconds)},
      {"  product", format_duration(before.gemm_s), format_duration(run.gemm_s)},
      {"  reduce-scatter, or what is left of it", format_duration(before.scatter_s), format_duration(run.scatter_s)},
      {"  gather", format_duration(before.gather_s), format_duration(run.gather_s)},
      {"speedup", "1.000", fmt::format("{:.3f}", before.seconds / run.seconds)},
      {"DRAM bytes", bytes(before.traffic.total()), bytes(run.traffic.total())},
      {"  product reads", bytes(before.traffic.gemm_read), bytes(run.traffic.gemm_read)},
      {"  product writes", bytes(before.traffic.gemm_write), bytes(run.traffic.gemm_write)},
      {"  reduce-scatter reads", bytes(before.traffic.rs_read), bytes(run.traffic.rs_read)},
      {"  reduce-scatter writes", bytes(before.traffic.rs_write), bytes(run.traffic.rs_write)},
      {"  gather reads and writes", bytes(before.traffic.ag_read + before.traffic.ag_write),
       bytes(run.traffic.ag_read + run.traffic.ag_write)},
      {"tracker entries wanted at once", "", fmt::format("{}", run.tracker_peak)},
      {"  updates tracked in memory", "", fmt::format("{}", run.spills)},
      {"events", fmt::format("{}", before.events), fmt::format("{}", run.events)}};
  return fmt::format("{} {} on {} devices of {}: {} x {} x {}\n", one.model, one.layer.name, one.tp,
                     simulator.chip().name, shape.m, shape.n, shape.k) +
         draw::aligned(rows, draw::Last::number);
}

}  // namespace weft::cli::sim
