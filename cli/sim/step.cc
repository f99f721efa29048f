// A training step on a network: flags and report. The figures are weft/sim/step's.
#include "cli/sim/step.h"

#include <chrono>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/cluster/cluster.h"
#include "weft/draw/text_table.h"
#include "weft/sim/chip/chip.h"
#include "weft/sim/net/report.h"
#include "weft/sim/net/step_times.h"
#include "weft/sim/step/chakra.h"
#include "weft/sim/step/text_workload.h"

#include "cli/flag_values.h"
#include "cli/sim/net.h"

namespace weft::cli::sim {
namespace {

using netsim::OperatorUse;

Reduction reduction_of(const std::string& text) {
  if (text == "all_reduce" || text == "all-reduce") return Reduction::all_reduce;
  if (text == "reduce_scatter" || text == "reduce-scatter") return Reduction::reduce_scatter;
  bad_input("--reduction {} is neither all_reduce nor reduce_scatter; give one of them", text);
}

nlohmann::ordered_json step_json(const StepReport& r, int most_links) {
  using Json = nlohmann::ordered_json;
  const netsim::NetResult& net = r.result.net;
  Json operators = Json::array();
  for (const OperatorUse& one : r.result.operators)
    operators.push_back({{"name", one.name},
                         {"count", one.count},
                         {"compute_us", one.compute_s * 1e6},
                         {"comm_us", one.comm_s * 1e6},
                         {"exposed_us", one.exposed_s * 1e6},
                         {"hidden_us", one.hidden_s * 1e6}});
  return {{"step", r.graph.name},
          {"network", r.topology.name},
          {"kind", to_string(r.topology.kind)},
          {"ranks", net.ranks},
          {"time_us", net.seconds() * 1e6},
          {"compute_us", weft::sim::to_seconds(net.compute) * 1e6},
          {"exposed_us", net.exposed_seconds() * 1e6},
          {"bound_us", weft::sim::to_seconds(net.bound) * 1e6},
          {"chain_us", weft::sim::to_seconds(net.chain) * 1e6},
          {"simulated_ranks", net.simulated},
          {"bytes", net.bytes},
          {"messages", net.messages},
          {"events", net.events},
          {"wall_s", r.wall_s},
          {"operators", operators},
          {"links", links_json(net, r.topology, most_links)}};
}

void print_operators(const StepReport& r) {
  std::vector<std::vector<std::string>> rows{
      {"operator, mean over ranks", "times", "computing", "communication", "exposed", "hidden"}};
  for (const OperatorUse& one : r.result.operators)
    rows.push_back({one.name, fmt::format("{:.4g}", one.count), format_duration(one.compute_s),
                    format_duration(one.comm_s), format_duration(one.exposed_s), format_duration(one.hidden_s)});
  fmt::print("\n{}", draw::aligned(rows, draw::Last::number));
}

}  // namespace

Subject subject_of(const std::string& name) {
  std::error_code error;
  if (name.ends_with(".et") || std::filesystem::is_regular_file(name + ".0.et", error)) return Subject::chakra;
  if (name.ends_with(".txt")) return Subject::text;
  if (!std::filesystem::is_regular_file(name, error))
    return name.find('/') == std::string::npos && !name.ends_with(".json") ? Subject::workload : Subject::plan;
  try {
    return find_field(load_json(name), "scale_down", name) != nullptr ? Subject::workload : Subject::plan;
  } catch (const Error&) {
    return Subject::plan;  // what is wrong with it, the loader of plans says
  }
}

netsim::StepGraph load_step(const std::string& name, const StepFlags& flags, int network_ranks) {
  const Subject subject = subject_of(name);
  if (subject == Subject::workload) {
    if (!flags.fuse.empty() || !flags.groups.empty())
      bad_input("--fuse and --groups are for traces; \"{}\" is a workload, give --forward and --backward", name);
    const Workload workload = load_workload(name);
    netsim::TrainingOptions how = options_of(flags);
    how.plans.prove = flags.prove;
    return training_step(workload, training_of(workload, flags), how);
  }
  netsim::TextOptions text{.ranks = network_ranks, .model_ranks = flags.tp};
  text.trace.fuse = flags.fuse;
  text.trace.plans = {parse_route(flags.route), flags.pieces, flags.prove};
  if (!flags.cluster.empty() || !flags.chip.empty()) {
    const netsim::TrainingOptions rates = options_of(flags);
    text.trace.flops_per_s = rates.flops_per_s, text.trace.bytes_per_s = rates.bytes_per_s;
  }
  if (subject == Subject::text) return netsim::load_text_workload(name, text);
  std::string prefix = name;
  if (prefix.ends_with(".0.et")) prefix.resize(prefix.size() - 5);
  return netsim::load_chakra(prefix, flags.groups, text.trace);
}

Training training_of(const Workload& workload, const StepFlags& flags) {
  Training out = workload.training;
  if (flags.tp > 0) out.tp = flags.tp;
  if (flags.pp > 0) out.pp = flags.pp;
  if (flags.dp > 0) out.dp = flags.dp;
  if (flags.ep > 0) out.ep = flags.ep;
  if (flags.micro_batches > 0) out.micro_batches = flags.micro_batches;
  if (flags.micro_batch > 0) out.micro_batch = flags.micro_batch;
  if (!flags.schedule.empty()) out.schedule = flags.schedule;
  return out;
}

netsim::TrainingOptions options_of(const StepFlags& flags) {
  if (flags.cluster.empty() == flags.chip.empty())
    bad_input("a rank's rates come from one place; give either --chip NAME|FILE or --cluster FILE");
  const netsim::StepRates rates = flags.chip.empty() ? netsim::rates_of(load_cluster(flags.cluster))
                                                     : netsim::rates_of(weft::sim::load_chip(flags.chip));
  netsim::TrainingOptions out;
  out.forward = netsim::parse_overlap(flags.forward), out.backward = netsim::parse_overlap(flags.backward);
  out.panels = flags.panels;
  out.reduction = reduction_of(flags.reduction);
  out.flops_per_s = rates.flops_per_s, out.bytes_per_s = rates.read_bytes_per_s;
  out.fused_factor = flags.fused_factor, out.update_factor = flags.update_factor;
  out.update_parts = flags.update_parts;
  out.plans.route = parse_route(flags.route);
  out.plans.pieces = flags.pieces;
  return out;
}

void add_step_flags(CLI::App* command, StepFlags* flags) {
  add_number(*command, "--tp", &flags->tp, "WORKLOAD: ranks that share a layer (the file's)", 1);
  add_number(*command, "--pp", &flags->pp, "stages of a pipeline", 1);
  add_number(*command, "--dp", &flags->dp, "replicas", 1);
  add_number(*command, "--ep", &flags->ep, "ranks that share experts", 1);
  add_number(*command, "--micro-batches", &flags->micro_batches, "of a replica per step", 1);
  add_number(*command, "--micro-batch", &flags->micro_batch, "sequences; dlrm: samples of a rank", std::int64_t{1});
  command->add_option("--fuse", flags->fuse, "TRACE: compute nodes to fuse with the collective that needs them")
      ->type_name("PATTERN");
  command->add_option("--groups", flags->groups, "TRACE: groups of ranks by name, as {\"0\": [0, 1]}")
      ->type_name("FILE");
  command->add_option("--schedule", flags->schedule, "gpipe, 1f1b, eager_1f1b, interleaved_1f1b or zero_bubble");
  command->add_option("--forward", flags->forward, "producers and their collectives: bulk, panels or fused (bulk)");
  command->add_option("--backward", flags->backward, "the same in the backward pass (bulk)");
  add_number(*command, "--panels", &flags->panels, "parts of a producer in panels (4)", 1);
  add_number(*command, "--pieces", &flags->pieces, "messages of a fused producer's chunk (8)", 1);
  command->add_option("--reduction", flags->reduction, "all_reduce, or reduce_scatter and all_gather (all_reduce)");
  command->add_option("--route", flags->route, "of all_reduce (ring)");
  add_number(*command, "--fused-factor", &flags->fused_factor, "on the time of a producer that is fused (1)");
  add_number(*command, "--update-parts", &flags->update_parts, "dlrm: the exchange of gradients and the update (1)", 1);
  add_number(*command, "--update-factor", &flags->update_factor, "dlrm: on the traffic of a table's update (1)");
}

StepReport run_step(netsim::StepGraph graph, const Topology& topology, const netsim::StepRunOptions& options) {
  StepReport out;
  out.graph = std::move(graph);
  out.topology = topology;
  const auto start = std::chrono::steady_clock::now();
  out.result = simulate_step(out.graph, out.topology, options);
  out.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

void print_step(const StepReport& r, int most_links, bool json) {
  if (json) {
    fmt::print("{}", json_line(step_json(r, most_links)));
    return;
  }
  const netsim::NetResult& net = r.result.net;
  const auto duration = [](netsim::Time time) { return format_duration(weft::sim::to_seconds(time)); };
  fmt::print("step of \"{}\" on network {} ({}, {} ranks)\n", r.graph.name, r.topology.name, to_string(r.topology.kind),
             r.topology.num_ranks);
  fmt::print("time {}: computing {} on the busiest rank, exposed {}\n", duration(net.end), duration(net.compute),
             format_duration(net.exposed_seconds()));
  fmt::print("at least {}: the hottest link's bytes {}, the longest chain {}\n",
             duration(std::max(net.bound, net.chain)), duration(net.bound), duration(net.chain));
  fmt::print("moved {} in {} messages; simulated {} of {} ranks{}; {} events in {}\n", format_bytes(net.bytes),
             net.messages, net.simulated, net.ranks, net.simulated < net.ranks ? " (one of each class, as proved)" : "",
             net.events, format_duration(r.wall_s));
  print_operators(r);
  print_links(net, r.topology, most_links);
}

}  // namespace weft::cli::sim
