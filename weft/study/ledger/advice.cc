// From the figures of a ledger to what they mean: which side bounds, whether fusing is worth it here, what to run next.
#include "weft/study/ledger/advice.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "weft/base/units.h"

namespace weft {
namespace {

// A rate one can say: 1, 2 or 5 times a power of ten bits.
std::string round_rate(double bytes_per_s) {
  const double bits = std::max(bytes_per_s * 8, 1e6), power = std::pow(10.0, std::floor(std::log10(bits)));
  const double digit = bits / power < 1.5 ? 1 : bits / power < 3.5 ? 2 : bits / power < 7.5 ? 5 : 10;
  const double rate = digit * power;
  return rate >= 1e9 ? fmt::format("{:.0f}gbit", rate * 1e-9) : fmt::format("{:.0f}mbit", rate * 1e-6);
}

const SubLayerRow* most_exposed(const BlockLedger& ledger) {
  const SubLayerRow* worst = nullptr;
  const auto exposed = [](const SubLayerRow& row) { return row.of(Style::sequential) - row.of(Style::compute); };
  for (const SubLayerRow& row : ledger.sub_layers)
    if (!row.collective.empty() && (worst == nullptr || exposed(row) > exposed(*worst))) worst = &row;
  return worst;
}

std::string verdict(const BlockLedger& ledger) {
  const double sequential = ledger.measured_us(Style::sequential), panels = ledger.measured_us(Style::panels),
               fused = ledger.measured_us(Style::fused), noise = ledger.table.aa_band * sequential;
  const char* best = panels < sequential ? "panels" : "sequential";
  const double saved = std::min(sequential, panels) - fused;
  if (std::abs(saved) <= noise)
    return fmt::format("Fused and the best of the others ({}) are within the noise of each other here.", best);
  if (saved < 0)
    return fmt::format("Fused is slower than {} by {} here: do not fuse this block on this link.", best,
                       duration_text(-saved));
  return fmt::format("Fused is {:.2f} times as fast as sequential and {:.2f} times as fast as panels.",
                     sequential / fused, panels / fused);
}

std::string bound(const BlockLedger& ledger) {
  const double ratio = ledger.compute_to_comm();
  const std::string figures =
      fmt::format("the products that communicate take {}, their collectives alone {} ({:.2g} : 1)",
                  duration_text(ratio * ledger.comm_us), duration_text(ledger.comm_us), ratio);
  if (ledger.exposed_us(Style::sequential) < 0.05 * ledger.measured_us(Style::sequential))
    return fmt::format("There is little to hide: {}. Fusion pays on slower links, or with less k for each rank.",
                       figures);
  if (ratio < 0.5)
    return fmt::format(
        "The link bounds: {}. What a product can hide is at most its own time; a faster link, fewer bytes "
        "(bf16 on the wire) or dropped synchronisations are what is left.",
        figures);
  if (ratio > 2)
    return fmt::format("Compute bounds: {}. All of it can hide, but it is a small part to begin with.", figures);
  return fmt::format("Balanced, where overlap gives most: {}.", figures);
}

// The op of `weft bench` that a sub-layer is.
const char* bench_op(const SubLayer& layer) {
  if (layer.before == Collective::all_gather) return "ag-gemm";
  if (layer.after == Collective::all_reduce) return "gemm-ar";
  return layer.after == Collective::reduce_scatter ? "gemm-rs" : "gemm-a2a";
}

void add_bench(const BlockLedger& ledger, Advice* out) {
  const SubLayerRow* row = most_exposed(ledger);
  if (row == nullptr || ledger.workload.kind == WorkloadKind::dlrm) return;
  const int ranks = ledger.table.ranks;
  for (const SubLayer& layer : sub_layers(ledger.workload, {.ranks = ranks}, Phase::forward)) {
    if (layer.name != row->name) continue;
    const bool gathers = layer.before == Collective::all_gather;
    const std::string op = fmt::format("{} --ranks {} --m {} --n {} --k {}", bench_op(layer), ranks,
                                       gathers ? layer.m / ranks : layer.m, layer.n, layer.k);
    const std::string link = ledger.table.link.paced ? " --link " + ledger.table.link.name : "";
    out->commands.push_back(
        {fmt::format("build/weft bench {}{}", op, link), fmt::format("{} alone, where most is exposed", row->name)});
    out->commands.push_back({fmt::format("build/weft plan {}", op), "its plan, rule by rule, and the proof"});
    return;
  }
}

}  // namespace

std::string duration_text(double us) { return us < 0.05 ? "0 us" : format_duration(us * 1e-6); }

std::string headline(const BlockLedger& ledger) {
  const double sequential = ledger.measured_us(Style::sequential), exposed = ledger.exposed_us(Style::sequential);
  const auto left = [&](Style style) { return duration_text(std::max(0.0, ledger.exposed_us(style))); };
  if (exposed <= ledger.table.aa_band * sequential)
    return fmt::format("Communication takes less than this machine's noise ({:.1f} %) of {}: there is nothing to hide.",
                       ledger.table.aa_band * 100, duration_text(sequential));
  return fmt::format("Communication takes {} of {}; fused leaves {} of it exposed, panels {}.", duration_text(exposed),
                     duration_text(sequential), left(Style::fused), left(Style::panels));
}

std::string headline(const ModelLedger& ledger) {
  const auto us = [&](const char* name) { return duration_text(ledger.table.measured_us(name)); };
  return fmt::format(
      "Until the first token: {} as products and all-reduces one after another, {} fused, {} fused with {} of {} "
      "synchronisations dropped and int8 on the wire.",
      us("sequential"), us("fused"), us("dropped_int8"), ledger.table.find("dropped_int8")->dropped,
      2 * ledger.config.blocks);
}

std::string limits_of(const ModelLedger& ledger) {
  if (ledger.elsewhere.size() < 2) return "";
  const OnAnotherLink &slow = ledger.elsewhere.front(), &fast = ledger.elsewhere.back();
  return fmt::format(
      "Where it would convince less, as predicted: at {} fusing saves {:.0f} % of {}, for a product hides at most its "
      "own time; at {} there are only {} beside compute to hide.",
      format_bit_rate(slow.bytes_per_s), 100 * (1 - slow.fused_us / slow.sequential_us),
      duration_text(slow.sequential_us), format_bit_rate(fast.bytes_per_s),
      duration_text(fast.sequential_us - fast.compute_us));
}

Advice advice(const BlockLedger& ledger) {
  Advice out;
  const double ratio = ledger.compute_to_comm();
  out.sentences = {verdict(ledger), bound(ledger)};
  const std::string& name = ledger.workload.name;
  const Cluster& cluster = ledger.table.cluster;
  const std::optional<Link>& paced = ledger.table.link.paced;
  const Link& link = paced ? *paced : cluster.num_hosts > 1 ? cluster.network : cluster.local;
  const auto on_link = [&](double bytes_per_s) {
    return fmt::format("build/weft ledger --workload {} --link {},10us{}", name, round_rate(bytes_per_s),
                       paced && paced->fabric == Fabric::nic ? ",nic" : "");
  };
  if (ratio < 0.5 || ratio > 2 || !paced)
    out.commands.push_back(
        {on_link(link.bytes_per_s / std::max(ratio, 1e-3)), "where compute and communication are equal"});
  if (paced)
    out.commands.push_back({on_link(link.bytes_per_s * 10), "a link ten times as fast: is fusing still worth it?"});
  add_bench(ledger, &out);
  out.commands.push_back(
      {fmt::format("build/weft ledger --workload {}", name == "mixtral-8x7b" ? "llama-2-70b" : "mixtral-8x7b"),
       "another model; the files are in workloads/"});
  return out;
}

Advice advice(const ModelLedger& ledger) {
  const std::string& model = ledger.model;
  Advice out;
  out.commands = {
      {fmt::format("build/weft generate --model {} --ranks 2 --prompt 'The'", model), "text, token by token"}};
  if (!ledger.calibration.empty())
    out.commands.push_back({fmt::format("build/weft spd analyze --model {} --tp {} --text {} --quick --max-loss 1%",
                                        model, ledger.table.ranks, ledger.calibration),
                            "which synchronisations it can spare"});
  out.commands.push_back({fmt::format("build/weft ledger --model {} --ranks 4 --link 100mbit,20us,nic", model),
                          "a slow link, where sending less counts"});
  out.commands.push_back({"build/weft ledger --workload t-nlg", "one block of a large model, part by part"});
  return out;
}

}  // namespace weft
