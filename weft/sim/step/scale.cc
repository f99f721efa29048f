#include "weft/sim/step/scale.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/sim/step/run.h"

namespace weft::netsim {
namespace {

constexpr int kUpdateParts = 8;

StepResult run_style(const Setting& s, Overlap forward, Overlap backward, int update_parts) {
  TrainingOptions options = s.options;
  options.forward = forward, options.backward = backward, options.update_parts = update_parts;
  StepRunOptions run;
  run.time_alone = false;
  return simulate_step(training_step(s.workload, s.training, options), s.topology, run);
}

void resize_tables(Workload* w, std::size_t tables) {
  w->rows.resize(tables, w->rows[0]);
  w->multi_hot.resize(tables, w->multi_hot[0]);
}

// The distinct rates of links, and those wires' indices.
std::vector<std::pair<double, std::vector<std::size_t>>> wires_by_rate(const Topology& t) {
  std::set<double, std::greater<>> rates;
  for (const DirectedLink& wire : t.wires) rates.insert(wire.bytes_per_s);
  std::vector<std::pair<double, std::vector<std::size_t>>> out;
  for (const double rate : rates) {
    out.push_back({rate, {}});
    for (std::size_t w = 0; w < t.wires.size(); ++w)
      if (t.wires[w].bytes_per_s == rate) out.back().second.push_back(w);
  }
  return out;
}

void add_dense_split(const Setting& s, std::vector<Variation>* out) {
  const std::size_t layers = s.workload.bottom.size() - 1 + s.workload.top.size();
  const std::int64_t width = s.workload.top[0];
  for (const std::size_t bottom : {std::size_t{4}, layers - 4}) {
    Variation one{fmt::format("{} of {} layers before the tables are met", bottom, layers), s};
    one.setting.workload.bottom.assign(bottom, width);
    one.setting.workload.bottom.push_back(s.workload.dim);
    one.setting.workload.top.assign(layers - bottom, width);
    out->push_back(std::move(one));
  }
}

}  // namespace

Styles run_styles(const Setting& s) {
  const bool tables = s.workload.kind == WorkloadKind::dlrm;
  const StepResult bulk = run_style(s, Overlap::bulk, Overlap::bulk, 1);
  Styles out;
  out.ranks = bulk.net.ranks, out.simulated = bulk.net.simulated, out.events = bulk.net.events;
  out.compute_s = sim::to_seconds(bulk.net.compute);
  out.bulk_s = bulk.net.seconds();
  out.panels_s = run_style(s, Overlap::panels, Overlap::panels, tables ? s.options.panels : 1).net.seconds();
  out.forward_s = run_style(s, Overlap::fused, Overlap::bulk, 1).net.seconds();
  out.both_s = run_style(s, Overlap::fused, Overlap::fused, tables ? kUpdateParts : 1).net.seconds();
  return out;
}

Setting at_ranks(const Setting& setting, int ranks) {
  Setting out = setting;
  Training& t = out.training;
  const int inside = t.tp * t.ep;
  if (ranks < 1 || ranks % inside != 0)
    bad_input("{} ranks cannot be shared by tp {} and ep {}; use a multiple of {}", ranks, t.tp, t.ep, inside);
  t.pp = std::min(t.pp, ranks / inside);
  if (ranks % (inside * t.pp) != 0)
    bad_input("{} ranks cannot be shared by tp {}, ep {} and pp {}; use a multiple of {}", ranks, t.tp, t.ep, t.pp,
              inside * t.pp);
  t.dp = ranks / (inside * t.pp);
  if (out.workload.kind == WorkloadKind::dlrm) {
    const std::size_t tables = setting.workload.rows.size() * num(ranks) / num(setting.training.dp);
    resize_tables(&out.workload, std::max(tables, num(ranks)));
  }
  out.topology = resized(setting.topology, ranks);
  return out;
}

std::vector<Variation> free_parameters(const Setting& setting, double share) {
  std::vector<Variation> out;
  const auto add = [&](const std::string& what, auto&& change) {
    for (const double factor : {1 - share, 1 + share}) {
      Variation one{fmt::format("{} {:+.0f} %", what, (factor - 1) * 100), setting};
      change(&one.setting, factor);
      out.push_back(std::move(one));
    }
  };
  add("arithmetic of a rank", [](Setting* s, double f) { s->options.flops_per_s *= f; });
  add("memory of a rank", [](Setting* s, double f) { s->options.bytes_per_s *= f; });
  for (const auto& [rate, wires] : wires_by_rate(setting.topology))
    add(fmt::format("links of {}/s", format_bytes(rate)), [&](Setting* s, double f) {
      for (const std::size_t w : wires) s->topology.wires[w].bytes_per_s *= f;
    });
  add("latencies", [](Setting* s, double f) {
    for (DirectedLink& wire : s->topology.wires) wire.latency_s *= f;
  });
  add("time of fused producers", [](Setting* s, double f) { s->options.fused_factor *= f; });
  if (setting.workload.kind == WorkloadKind::dlrm)
    add("traffic of updates", [](Setting* s, double f) { s->options.update_factor *= f; });
  return out;
}

std::vector<Variation> unknowns_of_dlrm(const Setting& setting) {
  if (setting.workload.kind != WorkloadKind::dlrm)
    bad_input("workload \"{}\" has no tables; the band is that of a dlrm, as dlrm-128", setting.workload.name);
  std::vector<Variation> out;
  const auto add = [&](std::string what, auto&& change) {
    Variation one{std::move(what), setting};
    change(&one.setting);
    out.push_back(std::move(one));
  };
  const std::size_t ranks = num(setting.training.dp);
  for (const std::size_t tables : {1, 2, 8})
    add(fmt::format("{} tables per node", tables), [&](Setting* s) { resize_tables(&s->workload, tables * ranks); });
  for (const std::int64_t batch : {512, 4096})
    add(fmt::format("{} samples of a node", batch), [&](Setting* s) { s->training.micro_batch = batch; });
  add("16-bit values", [](Setting* s) { s->workload.dtype = Dtype::bf16; });
  for (const double factor : {0.5, 2.0})
    add(fmt::format("updates of {} of the traffic", factor), [&](Setting* s) { s->options.update_factor *= factor; });
  for (const double factor : {1.0, 1 / 0.875})
    add(fmt::format("fused producers take {:.3f}", factor), [&](Setting* s) { s->options.fused_factor = factor; });
  add("half the arithmetic", [](Setting* s) { s->options.flops_per_s /= 2; });
  add_dense_split(setting, &out);
  const DirectedLink& wire = setting.topology.wires[0];
  add("one NIC per node and a switch", [&](Setting* s) {
    s->topology = switch_topology(setting.topology.num_ranks, {wire.bytes_per_s, wire.latency_s});
  });
  return out;
}

}  // namespace weft::netsim
