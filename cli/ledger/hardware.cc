#include "cli/ledger/hardware.h"

#include <algorithm>

#include "weft/sim/chip/chip.h"

namespace weft::cli {
namespace {

constexpr const char* kPaperChip = "t3-paper";

// One CU with a core's rates. What a CPU has no number for is that of the paper's chip.
sim::Chip chip_of(const HardwareRates& rates) {
  const Cluster& cluster = rates.cluster;
  sim::Chip chip = sim::load_chip(kPaperChip);
  chip.name = cluster.name;
  chip.cus = 1;
  chip.clock_hz = 1e9;
  chip.flops_per_cycle = cluster.flops_per_s / chip.clock_hz;
  chip.gemm_efficiency = 1;
  chip.tile_rows = chip.tile_cols = chip.tile_k = 64;
  chip.raster_cols = 0;
  chip.llc_bytes = static_cast<std::int64_t>(std::max(cluster.shared_cache_bytes, cluster.cache_bytes));
  chip.llc_latency_s = 0;
  chip.dram_bytes_per_s = cluster.read_bytes_per_s;
  chip.dram_latency_s = 0.1e-6;
  chip.kernel_bytes_per_s = cluster.write_bytes_per_s;
  const Link& link = rates.link ? *rates.link : cluster.local;
  chip.link_bytes_per_s = link.bytes_per_s * (rates.link ? rates.ranks - 1 : 1);  // a paced link for every peer
  chip.link_latency_s = link.latency_s;
  return chip;
}

bool is_summed(const SubLayer& layer) {
  return layer.after == Collective::all_reduce && layer.work == WorkKind::gemm && layer.before == Collective::none;
}

}  // namespace

std::optional<double> simulated_exposed_s(std::span<const sim::SimShape> shapes, const HardwareRates& rates) {
  const std::vector<std::string> chips = sim::chip_names();  // a user's own data folder may have none
  if (std::find(chips.begin(), chips.end(), kPaperChip) == chips.end()) return {};
  sim::Simulator simulator(chip_of(rates));
  double exposed_s = 0;
  for (const sim::SimShape& shape : shapes) {
    if (std::max(shape.m, shape.n) % rates.ranks != 0) return {};
    const double alone = simulator.run(shape, sim::Config::sequential).gemm_s;
    exposed_s += std::max(0.0, simulator.run(shape, sim::Config::direct).seconds - alone);
  }
  return exposed_s;
}

void add_simulated_row(Ledger* ledger) {
  if (ledger->workload.kind != WorkloadKind::transformer) return;
  std::vector<sim::SimShape> shapes;
  for (const SubLayer& layer : sub_layers(ledger->workload, {.ranks = ledger->ranks}, Phase::forward)) {
    if (!layer.communicates()) continue;
    if (!is_summed(layer)) return;
    shapes.push_back({layer.m, layer.n, layer.k, ledger->ranks, 4});  // floats, as the block was run
  }
  const auto exposed_s = simulated_exposed_s(shapes, {ledger->cluster, ledger->link, ledger->ranks});
  if (!exposed_s) return;
  LedgerRow row{.name = "track_and_trigger", .note = "simulated; its gather stays exposed"};
  row.predicted_us = ledger->row(Style::compute).predicted_us.value_or(0) + *exposed_s * 1e6;
  row.exposed_us = *exposed_s * 1e6;
  ledger->rows.push_back(row);
}

}  // namespace weft::cli
