// From the figures of a ledger to what they mean: which side bounds, whether fusing is worth it here, what to run next.
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "weft/base/units.h"

#include "cli/ledger/report.h"

namespace weft::cli {
namespace {

std::string duration(double us) { return format_duration(std::max(us, 0.0) * 1e-6); }

// A rate one can say: 1, 2 or 5 times a power of ten bits.
std::string round_rate(double bytes_per_s) {
  const double bits = std::max(bytes_per_s * 8, 1e6), power = std::pow(10.0, std::floor(std::log10(bits)));
  const double digit = bits / power < 1.5 ? 1 : bits / power < 3.5 ? 2 : bits / power < 7.5 ? 5 : 10;
  const double rate = digit * power;
  return rate >= 1e9 ? fmt::format("{:.0f}gbit", rate * 1e-9) : fmt::format("{:.0f}mbit", rate * 1e-6);
}

const SubLayerRow* most_exposed(const Ledger& ledger) {
  const SubLayerRow* worst = nullptr;
  const auto exposed = [](const SubLayerRow& row) { return row.of(Style::sequential) - row.of(Style::compute); };
  for (const SubLayerRow& row : ledger.sub_layers)
    if (!row.collective.empty() && (worst == nullptr || exposed(row) > exposed(*worst))) worst = &row;
  return worst;
}

std::string verdict(const Ledger& ledger) {
  const double sequential = ledger.measured(Style::sequential), panels = ledger.measured(Style::decomposed),
               fused = ledger.measured(Style::fused), noise = ledger.aa_band * sequential;
  const bool by_hand = panels < sequential;
  const double saved = std::min(sequential, panels) - fused;
  if (std::abs(saved) <= noise)
    return fmt::format("Fused and the best of the others ({}) are within the noise of each other here.",
                       by_hand ? "panels by hand" : "sequential");
  if (saved < 0)
    return fmt::format("Fused is slower than {} by {} here: do not fuse this block on this link.",
                       by_hand ? "panels by hand" : "sequential", duration(-saved));
  return fmt::format("Fused is {:.2f} times as fast as sequential and {:.2f} times as fast as panels by hand.",
                     sequential / fused, panels / fused);
}

std::string bound(const Ledger& ledger) {
  const double ratio = ledger.compute_to_comm();
  const std::string figures =
      fmt::format("the products that communicate take {}, their collectives alone {} ({:.2g} : 1)",
                  duration(ratio * ledger.comm_us), duration(ledger.comm_us), ratio);
  if (ledger.exposed(Style::sequential) < 0.05 * ledger.measured(Style::sequential))
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

void add_bench(const Ledger& ledger, Advice* out) {
  const SubLayerRow* row = most_exposed(ledger);
  if (row == nullptr || ledger.workload.kind == WorkloadKind::dlrm) return;
  for (const SubLayer& layer : sub_layers(ledger.workload, {.ranks = ledger.ranks}, Phase::forward)) {
    if (layer.name != row->name) continue;
    const bool gathers = layer.before == Collective::all_gather;
    const std::string op = gathers                                     ? "ag-gemm"
                           : layer.after == Collective::all_reduce     ? "gemm-ar"
                           : layer.after == Collective::reduce_scatter ? "gemm-rs"
                                                                       : "gemm-a2a";
    const std::string shape = fmt::format("--ranks {} --m {} --n {} --k {}", ledger.ranks,
                                          gathers ? layer.m / ledger.ranks : layer.m, layer.n, layer.k);
    const std::string link = ledger.link ? " --link " + ledger.link_name : "";
    out->commands.emplace_back(fmt::format("build/weft bench {} {}{}", op, shape, link),
                               fmt::format("{} alone, where most is exposed", row->name));
    out->commands.emplace_back(fmt::format("build/weft plan {} {}", op, shape),
                               "its plan, rule by rule, and the proof");
    return;
  }
}

}  // namespace

Advice advice(const Ledger& ledger) {
  Advice out;
  const double ratio = ledger.compute_to_comm();
  out.sentences = {verdict(ledger), bound(ledger)};
  const std::string name = ledger.workload.name;
  const bool hosts = ledger.cluster.num_hosts > 1;
  const auto rate = ledger.link ? ledger.link->bytes_per_s
                    : hosts     ? ledger.cluster.network.bytes_per_s
                                : ledger.cluster.local.bytes_per_s;
  // The link that would make both sides equal, and the other side of where we are.
  const std::string balanced = round_rate(rate / std::max(ratio, 1e-3));
  const std::string faster = round_rate(rate * 10);
  if (ratio < 0.5 || ratio > 2 || !ledger.link)
    out.commands.emplace_back(fmt::format("build/weft ledger --workload {} --link {},10us", name, balanced),
                              "where compute and communication are equal");
  if (ledger.link)
    out.commands.emplace_back(fmt::format("build/weft ledger --workload {} --link {},10us", name, faster),
                              "a link ten times as fast: is fusing still worth it?");
  add_bench(ledger, &out);
  out.commands.emplace_back(
      fmt::format("build/weft ledger --workload {}", name == "mixtral-8x7b" ? "llama-2-70b" : "mixtral-8x7b"),
      "another model; the files are in workloads/");
  return out;
}

}  // namespace weft::cli
