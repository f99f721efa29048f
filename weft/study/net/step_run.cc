#include "weft/study/net/step_run.h"

#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/clock.h"
#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/draw/text_table.h"
#include "weft/study/net/links_report.h"

namespace weft::netsim {
namespace {

std::string operators_text(const StepResult& result) {
  std::vector<std::vector<std::string>> rows{
      {"operator, mean over ranks", "times", "computing", "communication", "exposed", "hidden"}};
  for (const OperatorUse& one : result.operators)
    rows.push_back({one.name, fmt::format("{:.4g}", one.count), format_duration(one.compute_s),
                    format_duration(one.comm_s), format_duration(one.exposed_s), format_duration(one.hidden_s)});
  return "\n" + draw::aligned(rows, draw::Last::number);
}

}  // namespace

StepRun run_step(StepGraph graph, const Topology& topology, const StepRunOptions& options) {
  StepRun out;
  out.graph = std::move(graph);
  out.topology = topology;
  const std::int64_t start = now_ns();
  out.result = simulate_step(out.graph, out.topology, options);
  out.wall_s = seconds_since(start);
  return out;
}

std::string step_run_json(const StepRun& r, int most_links) {
  using Json = nlohmann::ordered_json;
  const NetResult& net = r.result.net;
  Json operators = Json::array();
  for (const OperatorUse& one : r.result.operators)
    operators.push_back({{"name", one.name},
                         {"count", one.count},
                         {"compute_us", one.compute_s * 1e6},
                         {"comm_us", one.comm_s * 1e6},
                         {"exposed_us", one.exposed_s * 1e6},
                         {"hidden_us", one.hidden_s * 1e6}});
  return json_line(Json{{"step", r.graph.name},
                        {"network", r.topology.name},
                        {"kind", to_string(r.topology.kind)},
                        {"ranks", net.ranks},
                        {"time_us", net.seconds() * 1e6},
                        {"compute_us", sim::to_seconds(net.compute) * 1e6},
                        {"exposed_us", net.exposed_seconds() * 1e6},
                        {"bound_us", sim::to_seconds(net.bound) * 1e6},
                        {"chain_us", sim::to_seconds(net.chain) * 1e6},
                        {"simulated_ranks", net.simulated},
                        {"bytes", net.bytes},
                        {"messages", net.messages},
                        {"events", net.events},
                        {"wall_s", r.wall_s},
                        {"operators", operators},
                        {"links", links_json(net, r.topology, most_links)}});
}

std::string step_run_text(const StepRun& r, int most_links) {
  const NetResult& net = r.result.net;
  std::string out = fmt::format("step of \"{}\" on network {} ({}, {} ranks)\n", r.graph.name, r.topology.name,
                                to_string(r.topology.kind), r.topology.num_ranks);
  out += fmt::format("time {}: computing {} on the busiest rank, exposed {}\n", time_text(net.end),
                     time_text(net.compute), format_duration(net.exposed_seconds()));
  out += fmt::format("at least {}: the hottest link's bytes {}, the longest chain {}\n",
                     time_text(std::max(net.bound, net.chain)), time_text(net.bound), time_text(net.chain));
  out += fmt::format("moved {} in {} messages; {}; {} events in {}\n", format_bytes(net.bytes), net.messages,
                     simulated_text(net), net.events, format_duration(r.wall_s));
  return out + operators_text(r.result) + links_text(net, r.topology, most_links);
}

}  // namespace weft::netsim
