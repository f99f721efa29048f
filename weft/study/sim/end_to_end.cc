// Whole models from their blocks: the summed sub-layers under each configuration, the other products simulated alone,
// attention and what lies between from counts of flops and bytes. Attention is taken at half of the rate that products
// reach, and what lies between streams through memory: both assumed.
#include <array>

#include "weft/collective/build.h"
#include "weft/study/sim/beyond.h"

namespace weft::sim {
namespace {

constexpr double kAttentionRate = 0.5;  // of a product's
constexpr std::array kCompared{Config::sequential, Config::t3, Config::t3_mca, Config::ideal_overlap};

// Two norms (read, write), two residual sums (two reads, one write) over the whole width; an activation over the split
// one. Backward reads and writes twice as much.
double between_bytes(const Workload& w, int tp, Phase phase) {
  const double tokens = w.tokens(), element = size_of(w.dtype);
  const double whole = (2 * 2 + 2 * 3) * static_cast<double>(w.hidden);
  const double split = 2 * static_cast<double>(w.ffn) / tp;
  return tokens * (whole + split) * element * (phase == Phase::forward ? 1 : 2);
}

double alone_s(const SubLayer& layer, const Chip& chip) {
  if (layer.work == WorkKind::attention) return flops(layer) / (chip.flops_per_s() * kAttentionRate);
  const std::array<std::int64_t, 2> tile{std::min(chip.tile_rows, layer.m), std::min(chip.tile_cols, layer.n)};
  const Plan plan = build(gemm({.m = layer.m, .n = layer.n, .k = layer.k, .tile = tile}), keep());
  return simulate(plan, chip, {.output = Output::cached, .keep = true}).seconds() * layer.count;
}

struct BlockTime {
  std::array<double, kCompared.size()> seconds{};
  double summed = 0;
};

BlockTime block_time(Simulator& simulator, const Workload& w, int tp, Phase phase) {
  BlockTime out;
  const Chip& chip = simulator.chip();
  for (const SubLayer& layer : sub_layers(w, {.ranks = tp}, phase)) {
    const bool summed = layer.after == Collective::all_reduce && layer.work == WorkKind::gemm;
    const double same = summed ? 0 : alone_s(layer, chip);
    for (std::size_t c = 0; c < kCompared.size(); ++c)
      out.seconds[c] += summed ? simulator.run(SimCase{w.name, tp, layer}, kCompared[c]).seconds : same;
    if (summed) out.summed += simulator.run(SimCase{w.name, tp, layer}, Config::sequential).seconds;
  }
  for (double& seconds : out.seconds) seconds += between_bytes(w, tp, phase) / chip.dram_bytes_per_s;
  return out;
}

}  // namespace

std::vector<EndToEndRow> end_to_end(Simulator& simulator) {
  std::vector<EndToEndRow> out;
  for (const char* model : {"mega-gpt-2", "t-nlg", "gpt-3", "palm", "mt-nlg"}) {
    const Workload w = load_workload(model);
    for (const int tp : w.degrees) {
      const BlockTime forward = block_time(simulator, w, tp, Phase::forward);
      const BlockTime backward = block_time(simulator, w, tp, Phase::backward);
      for (const bool training : {true, false}) {
        const double layers = w.layers;
        const auto of = [&](std::size_t c) {
          return layers * (forward.seconds[c] + (training ? backward.seconds[c] : 0));
        };
        EndToEndRow row{model, tp, training, of(0), of(1), of(2), of(3)};
        row.summed_share = layers * (forward.summed + (training ? backward.summed : 0)) / row.sequential_s;
        out.push_back(row);
      }
    }
  }
  return out;
}

}  // namespace weft::sim
