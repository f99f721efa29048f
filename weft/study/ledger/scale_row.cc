#include "weft/study/ledger/scale_row.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/base/units.h"
#include "weft/sim/chip/chip.h"
#include "weft/sim/step/run.h"
#include "weft/sim/step/training.h"

namespace weft {
namespace {

constexpr const char *kScaleNetwork = "rails-128x8", *kScaleChip = "h200-like";

template <typename Names>
bool has(const Names& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void add_scale_row(BlockLedger* ledger, const Workload& whole) {
  const Training& training = whole.training;
  if (whole.kind == WorkloadKind::dlrm || training.ranks() < 16 || training.ranks() % 8 != 0) return;
  if (!has(topology_names(), kScaleNetwork) || !has(sim::chip_names(), kScaleChip)) return;
  const Topology network = resized(load_topology(kScaleNetwork), training.ranks());
  const sim::Chip chip = sim::load_chip(kScaleChip);
  netsim::TrainingOptions options;
  options.flops_per_s = chip.flops_per_s(), options.bytes_per_s = chip.dram_bytes_per_s;
  netsim::StepRunOptions run;
  run.time_alone = false;
  const double bulk_s = simulate_step(training_step(whole, training, options), network, run).net.seconds();
  options.forward = options.backward = netsim::Overlap::fused;
  const netsim::NetResult fused = simulate_step(training_step(whole, training, options), network, run).net;
  LedgerRow row{.name = "at_scale"};
  row.predicted_us = fused.seconds() * 1e6;
  row.exposed_us = fused.exposed_seconds() * 1e6;
  row.note = fmt::format("simulated: a training step, {} GPUs; bulk {}", training.ranks(), format_duration(bulk_s));
  ledger->table.rows.push_back(std::move(row));
}

}  // namespace weft
