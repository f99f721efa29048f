// The same figures for programs.
#include <nlohmann/json.hpp>

#include "cli/sim/report.h"

namespace weft::cli::sim {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Spread& spread) { return {{"geomean", spread.geomean}, {"max", spread.max}}; }

Json to_json(const SimSummary& s) {
  return {{"ideal_overlap", to_json(s.ideal)},
          {"ideal_nmc", to_json(s.ideal_nmc)},
          {"t3", to_json(s.t3)},
          {"t3_fifo", to_json(s.t3_fifo)},
          {"t3_mca", to_json(s.t3_mca)},
          {"traffic_cut", s.traffic_cut},
          {"traffic_cut_max", s.traffic_cut_max},
          {"gemm_reads", s.gemm_reads},
          {"write_cut", s.write_cut},
          {"nmc_8", s.nmc_8},
          {"nmc_16", s.nmc_16}};
}

Json to_json(const CaseTraffic& t) {
  return {{"gemm_read", t.gemm_read}, {"gemm_write", t.gemm_write}, {"rs_read", t.rs_read}, {"rs_write", t.rs_write},
          {"ag_read", t.ag_read},     {"ag_write", t.ag_write},     {"tracker", t.tracker}, {"total", t.total()}};
}

Json whole_json(Simulator& simulator) {
  Json whole = Json::array();
  for (const EndToEndRow& row : end_to_end(simulator))
    whole.push_back({{"model", row.model},
                     {"tp", row.tp},
                     {"phase", row.training ? "training" : "prompt"},
                     {"sequential_s", row.sequential_s},
                     {"t3_s", row.t3_s},
                     {"t3_mca_s", row.t3_mca_s},
                     {"ideal_s", row.ideal_s},
                     {"summed_share", row.summed_share}});
  return whole;
}

}  // namespace

Json cases_json(Simulator& simulator, const std::vector<SimCase>& cases, const std::vector<Config>& configs) {
  Json out = Json::array();
  for (const SimCase& one : cases)
    for (const Config config : configs) {
      const CaseResult& run = simulator.run(one, config);
      out.push_back({{"model", one.model},
                     {"tp", one.tp},
                     {"layer", one.layer.name},
                     {"config", to_string(config)},
                     {"m", one.layer.m},
                     {"n", one.layer.n},
                     {"k", one.layer.k},
                     {"time_us", run.seconds * 1e6},
                     {"speedup", simulator.speedup(one, config)},
                     {"gemm_us", run.gemm_s * 1e6},
                     {"scatter_us", run.scatter_s * 1e6},
                     {"gather_us", run.gather_s * 1e6},
                     {"dram_bytes", to_json(run.traffic)},
                     {"tracker_peak", run.tracker_peak},
                     {"spills", run.spills},
                     {"events", run.events}});
    }
  return out;
}

Json paper_json(Simulator& simulator) {
  const SimSummary fitted = summary(simulator, fitted_cases()), predicted = summary(simulator, predicted_cases());
  const SimSummary all = summary(simulator, paper_cases());
  Json rows = Json::array(), bars = Json::array();
  for (const PaperRow& row : paper_rows(fitted, predicted, all))
    rows.push_back({{"what", row.what},
                    {"unit", row.unit},
                    {"paper", row.paper},
                    {"fitted", row.fitted},
                    {"predicted", row.predicted},
                    {"all", row.all},
                    {"fit_error", row.fitted - row.paper},
                    {"prediction_error", row.predicted - row.paper},
                    {"band", row.is_open}});
  for (const SimBar& bar : sim_bars(simulator, all))
    bars.push_back({{"what", bar.what}, {"target", bar.target}, {"seen", bar.seen}, {"met", bar.met}});
  return {{"rows", rows},
          {"bars", bars},
          {"fitted", to_json(fitted)},
          {"predicted", to_json(predicted)},
          {"all", to_json(all)}};
}

Json band_json(const T3Band& band) {
  Json cells = Json::array();
  for (const Spread& cell : band.cells) cells.push_back(to_json(cell));
  return {{"switch_ns", band.switch_ns},
          {"grant_bytes", band.grant_bytes},
          {"cells", cells},
          {"fifo", to_json(band.fifo)},
          {"low", band.low},
          {"high", band.high}};
}

Json scatter_json(const std::vector<ScatterAlone>& rows) {
  Json out = Json::array();
  for (const ScatterAlone& one : rows)
    out.push_back({{"bytes", one.bytes},
                   {"devices", one.devices},
                   {"bound_us", one.bound_us},
                   {"tiles_us", one.tiles_us},
                   {"steps_us", one.steps_us},
                   {"nmc_us", one.nmc_us}});
  return out;
}

Json sensitivity_json(Simulator& simulator, const std::vector<Sensitivity>& rows) {
  Json out = Json::array();
  for (const Sensitivity& one : rows)
    out.push_back({{"key", one.key},
                   {"free", one.free},
                   {"value", one.value},
                   {"lower", to_json(one.lower)},
                   {"higher", to_json(one.higher)}});
  return {{"now", to_json(summary(simulator, paper_cases()))}, {"parameters", out}};
}

Json beyond_json(Simulator& simulator) {
  Json consumers = Json::array(), swaps = Json::array(), tokens = Json::array();
  for (const ConsumerRow& row : with_consumer(simulator, paper_cases()))
    consumers.push_back({{"model", row.made.model},
                         {"tp", row.made.tp},
                         {"layer", row.made.layer.name},
                         {"consumer", row.consumer},
                         {"sequential_us", row.sequential_us},
                         {"t3_mca_us", row.t3_mca_us},
                         {"both_us", row.both_us}});
  for (const ExchangeRow& row : exchanges(simulator.chip()))
    swaps.push_back({{"model", row.model},
                     {"devices", row.shape.devices},
                     {"m", row.shape.m},
                     {"n", row.shape.n},
                     {"k", row.shape.k},
                     {"product_us", row.product_us},
                     {"exchange_us", row.exchange_us},
                     {"tracker_us", row.tracker_us},
                     {"fused_cu_us", row.fused_cu_us}});
  for (const GenerationRow& row : generation(simulator.chip()))
    tokens.push_back({{"model", row.model},
                      {"layer", row.layer},
                      {"tp", row.tp},
                      {"batch", row.batch},
                      {"product_us", row.product_us},
                      {"sequential_us", row.sequential_us},
                      {"sequential_direct_us", row.sequential_direct_us},
                      {"t3_mca_us", row.t3_mca_us},
                      {"fused_cu_us", row.fused_cu_us},
                      {"direct_us", row.direct_us}});
  return {{"gather_into_consumer", consumers},
          {"all_to_all", swaps},
          {"generation", tokens},
          {"end_to_end", whole_json(simulator)}};
}

Json sweep_json(const Sweep& sweep) {
  Json cells = Json::array();
  for (const SweepCell& cell : sweep.cells)
    cells.push_back({{"link_bytes_per_s", cell.link_bytes_per_s},
                     {"cus", cell.cus},
                     {"t3_mca", cell.t3_mca},
                     {"copy_engine", cell.copy_engine}});
  return {{"model", sweep.layer.model}, {"tp", sweep.layer.tp}, {"layer", sweep.layer.layer.name}, {"cells", cells}};
}

}  // namespace weft::cli::sim
