#include "weft/study/ledger/hardware.h"

#include <algorithm>

#include "weft/sim/chip/chip.h"

namespace weft {
namespace {

constexpr const char* kPaperChip = "t3-paper";

// One CU with a core's rates. What a CPU has no number for is that of the paper's chip.
sim::Chip chip_of(const LedgerTable& table) {
  const Cluster& cluster = table.cluster;
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
  const Link& link = table.link.paced ? *table.link.paced : cluster.local;
  const bool for_every_peer = table.link.paced && link.fabric == Fabric::pairs;
  chip.link_bytes_per_s = link.bytes_per_s * (for_every_peer ? table.ranks - 1 : 1);
  chip.link_latency_s = link.latency_s;
  return chip;
}

bool is_summed(const SubLayer& layer) {
  return layer.after == Collective::all_reduce && layer.work == WorkKind::gemm && layer.before == Collective::none;
}

}  // namespace

std::optional<LedgerRow> simulated_row(const LedgerTable& table, std::span<const sim::SimShape> shapes, double times) {
  const std::vector<std::string> chips = sim::chip_names();  // a user's own data folder may have none
  if (std::find(chips.begin(), chips.end(), kPaperChip) == chips.end()) return {};
  sim::Simulator simulator(chip_of(table));
  double exposed_us = 0;
  for (const sim::SimShape& shape : shapes) {
    if (std::max(shape.m, shape.n) % table.ranks != 0) return {};
    const double alone_s = simulator.run(shape, sim::Config::sequential).gemm_s;
    exposed_us += std::max(0.0, simulator.run(shape, sim::Config::direct).seconds - alone_s) * times * 1e6;
  }
  LedgerRow row{.name = "track_and_trigger", .exposed_us = exposed_us};
  row.predicted_us = table.find(kFloor)->predicted_us.value_or(0) + exposed_us;
  row.note = "simulated; its gather stays exposed";
  return row;
}

void add_simulated_row(BlockLedger* ledger) {
  if (ledger->workload.kind != WorkloadKind::transformer) return;
  const int ranks = ledger->table.ranks;
  std::vector<sim::SimShape> shapes;
  for (const SubLayer& layer : sub_layers(ledger->workload, {.ranks = ranks}, Phase::forward)) {
    if (!layer.communicates()) continue;
    if (!is_summed(layer)) return;
    shapes.push_back({layer.m, layer.n, layer.k, ranks, 4});  // floats, as the block was run
  }
  if (auto row = simulated_row(ledger->table, shapes, 1)) ledger->table.rows.push_back(std::move(*row));
}

}  // namespace weft
