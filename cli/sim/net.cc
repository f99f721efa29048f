// `weft sim net PLAN|WORKLOAD|TRACE --network NAME|FILE`: how long a plan, a training step or a trace takes on a
// network, what of it computing hides, and which links are hottest. The figures are weft/sim's.
#include "cli/sim/net.h"

#include <chrono>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/base/os/new_file.h"
#include "weft/base/units.h"
#include "weft/draw/text_table.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"
#include "weft/sim/net/report.h"
#include "weft/sim/net/run.h"
#include "weft/sim/net/step_times.h"
#include "weft/sim/step/chakra.h"
#include "weft/study/sim/step_picture.h"

#include "cli/flag_values.h"
#include "cli/out_file.h"
#include "cli/sim/step.h"

namespace weft::cli::sim {
namespace {

using netsim::HotLink;
using netsim::NetResult;

struct NetFlags {
  std::string plan, beside, steps, trace, chakra, svg;
  NetworkFlags network;
  StepFlags step;
  std::int64_t burst = 0;
  int links = 5, trace_ranks = 16, trace_links = 64;
  bool every_rank = false, unproved = false, json = false;
};

struct NetReport {
  Plan plan;
  std::optional<Plan> beside;
  Topology topology;
  NetResult result;
  std::optional<NetResult> alone;  // the same without computing, where there is some
  double wall_s = 0;

  double comm_s() const { return alone ? alone->seconds() : result.seconds(); }
  double hidden_s() const { return std::max(comm_s() - result.exposed_seconds(), 0.0); }
};

netsim::StepSeconds seconds_of(const NetFlags& flags, const Plan& plan) {
  if (!flags.step.cluster.empty() + !flags.step.chip.empty() + !flags.steps.empty() > 1)
    bad_input("steps take their time from one place; give one of --cluster, --chip and --steps");
  if (!flags.step.cluster.empty())
    return netsim::step_seconds(plan, netsim::rates_of(load_cluster(flags.step.cluster)));
  if (!flags.step.chip.empty())
    return netsim::step_seconds(plan, netsim::rates_of(weft::sim::load_chip(flags.step.chip)));
  if (!flags.steps.empty()) return netsim::step_seconds(plan, netsim::load_step_table(flags.steps));
  return {};
}

NetReport run_jobs(const NetFlags& flags) {
  NetReport report;
  report.topology = network_of(flags.network);
  report.plan = load_plan(flags.plan);
  if (!flags.beside.empty()) report.beside = load_plan(flags.beside);
  if (report.beside && (!flags.step.chip.empty() || !flags.step.cluster.empty() || !flags.steps.empty()))
    bad_input("--beside {} is for collectives alone; leave --cluster, --chip and --steps out", flags.beside);
  if (!flags.unproved) {
    require_runnable(report.plan);
    if (report.beside) require_runnable(*report.beside);
  }
  netsim::NetOptions options;
  options.script = {flags.burst, seconds_of(flags, report.plan)};
  options.ranks = flags.every_rank ? netsim::Ranks::every : netsim::Ranks::folded;
  options.keep_slices = !flags.trace.empty();
  std::vector<netsim::Job> jobs{{&report.plan, {}, 0}};
  if (report.beside) jobs.push_back({&*report.beside, {}, 0});
  const auto start = std::chrono::steady_clock::now();
  report.result = simulate(jobs, report.topology, options);
  report.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (report.result.compute > 0) {
    options.script.step_seconds = nullptr;
    options.keep_slices = false;
    report.alone = simulate(jobs, report.topology, options);
  }
  return report;
}

void print_json(const NetReport& r, int most_links) {
  using Json = nlohmann::ordered_json;
  Json ends = Json::array();
  for (const netsim::Time end : r.result.ends) ends.push_back(weft::sim::to_seconds(end) * 1e6);
  const Json out{{"plan", r.plan.name},
                 {"network", r.topology.name},
                 {"kind", to_string(r.topology.kind)},
                 {"ranks", r.result.ranks},
                 {"time_us", r.result.seconds() * 1e6},
                 {"ends_us", ends},
                 {"compute_us", weft::sim::to_seconds(r.result.compute) * 1e6},
                 {"comm_us", r.comm_s() * 1e6},
                 {"exposed_us", r.result.exposed_seconds() * 1e6},
                 {"hidden_us", r.hidden_s() * 1e6},
                 {"bound_us", weft::sim::to_seconds(r.result.bound) * 1e6},
                 {"chain_us", weft::sim::to_seconds(r.result.chain) * 1e6},
                 {"simulated_ranks", r.result.simulated},
                 {"burst_tiles", r.result.burst},
                 {"tiles", r.result.lanes},
                 {"bytes", r.result.bytes},
                 {"messages", r.result.messages},
                 {"signals", r.result.signals},
                 {"hops", r.result.hops},
                 {"events", r.result.events},
                 {"wall_s", r.wall_s},
                 {"links", links_json(r.result, r.topology, most_links)}};
  fmt::print("{}", json_line(out));
}

void print_text(const NetReport& r, int most_links) {
  const NetResult& x = r.result;
  const auto duration = [](netsim::Time time) { return format_duration(weft::sim::to_seconds(time)); };
  fmt::print("plan \"{}\" on network {} ({}, {} ranks)\n", r.plan.name, r.topology.name, to_string(r.topology.kind),
             r.topology.num_ranks);
  fmt::print("time {}: computing {}, communication exposed {}, hidden {}\n", duration(x.end), duration(x.compute),
             format_duration(x.exposed_seconds()), format_duration(r.hidden_s()));
  if (x.ends.size() > 1) fmt::print("the plan beside it, \"{}\", ends after {}\n", r.beside->name, duration(x.ends[1]));
  fmt::print("at least {}: the hottest link's bytes {}, the longest chain without waiting for links {}\n",
             duration(std::max(x.bound, x.chain)), duration(x.bound), duration(x.chain));
  fmt::print("moved {} in {} messages and {} signals; simulated {} of {} ranks{}, {}; {} events in {}\n",
             format_bytes(x.bytes), x.messages, x.signals, x.simulated, x.ranks,
             x.simulated < x.ranks ? " (one of each class, as proved)" : "",
             x.burst == 1 ? "tile by tile" : fmt::format("in bursts of {} tiles", x.burst), x.events,
             format_duration(r.wall_s));
  print_links(x, r.topology, most_links);
}

// Files of PREFIX.RANK.et, and their groups.
void write_chakra(const std::string& prefix, const netsim::StepGraph& graph) {
  for (int rank = 0; rank < graph.num_ranks; ++rank)
    write_file(fmt::format("{}.{}.et", prefix, rank), netsim::chakra_text(graph, rank));
  write_file(prefix + ".groups.json", netsim::chakra_groups(graph));
}

// A training step of a workload, or a trace.
int run_graph(const NetFlags& flags) {
  if (!flags.beside.empty() || !flags.steps.empty() || flags.burst != 0)
    bad_input("--beside, --steps and --burst are for plans; \"{}\" is none, leave them out", flags.plan);
  const Topology topology = network_of(flags.network);
  StepFlags step = flags.step;
  step.prove = !flags.unproved;
  netsim::StepRunOptions options;
  options.ranks = flags.every_rank ? netsim::Ranks::every : netsim::Ranks::folded;
  options.keep_slices = !flags.trace.empty();
  const StepReport report = run_step(load_step(flags.plan, step, topology.num_ranks), topology, options);
  if (!flags.trace.empty())
    write_file(flags.trace, step_trace(report.result, report.graph, topology, {flags.trace_ranks, flags.trace_links}));
  if (!flags.chakra.empty()) write_chakra(flags.chakra, report.graph);
  if (!flags.svg.empty()) write_file(flags.svg, operators_svg(report.result, report.graph.name));
  print_step(report, flags.links, flags.json);
  return 0;
}

int run_net(const NetFlags& flags) {
  if (subject_of(flags.plan) != Subject::plan) return run_graph(flags);
  if (!flags.chakra.empty() || !flags.svg.empty())
    bad_input("--chakra and --svg are of steps and traces; \"{}\" is a plan, leave them out", flags.plan);
  const NetReport report = run_jobs(flags);
  if (!flags.trace.empty()) {
    std::vector<const Plan*> plans{&report.plan};
    if (report.beside) plans.push_back(&*report.beside);
    write_file(flags.trace, net_trace(report.result, plans, report.topology, {flags.trace_ranks, flags.trace_links}));
  }
  if (flags.json)
    print_json(report, flags.links);
  else
    print_text(report, flags.links);
  return 0;
}

}  // namespace

nlohmann::ordered_json links_json(const NetResult& x, const Topology& topology, int most) {
  nlohmann::ordered_json links = nlohmann::ordered_json::array();
  for (const HotLink& link : hottest_links(x, topology, most))
    links.push_back({{"name", link.name},
                     {"count", link.count},
                     {"bytes", link.bytes},
                     {"messages", link.messages},
                     {"busy_us", link.busy_s * 1e6},
                     {"busy_share", link.share}});
  return links;
}

void print_links(const NetResult& x, const Topology& topology, int most) {
  std::vector<std::vector<std::string>> rows{
      {"hottest links", "such links", "bytes", "messages", "busy", "of the time"}};
  for (const HotLink& link : hottest_links(x, topology, most))
    rows.push_back({link.name, fmt::format("{}", link.count), format_bytes(link.bytes),
                    fmt::format("{}", link.messages), format_duration(link.busy_s),
                    fmt::format("{:.1f} %", link.share * 100)});
  if (rows.size() > 1) fmt::print("\n{}", draw::aligned(rows, draw::Last::number));
}

void add_net(CLI::App* command, Run* chosen) {
  auto* net = command->add_subcommand(
      "net", "a plan or a training step on a network of up to thousands of ranks, link by link");
  auto flags = std::make_shared<NetFlags>();
  net->add_option("plan", flags->plan,
                  "a plan, as `weft plan OP --save FILE` writes it; a workload: a name of workloads/ or a file; a "
                  "trace: the PREFIX of Chakra's PREFIX.RANK.et, or a text workload (.txt)")
      ->type_name("PLAN|WORKLOAD|TRACE")
      ->required();
  add_network_flags(net, &flags->network);
  net->add_option("--cluster", flags->step.cluster, "steps take the time of this cluster's rates (else none)")
      ->type_name("FILE");
  net->add_option("--chip", flags->step.chip, "steps take the time of this chip's rates")->type_name("NAME|FILE");
  net->add_option("--steps", flags->steps, "steps take the times of this table: seconds_per_tile by rule")
      ->type_name("FILE");
  net->add_option("--beside", flags->beside, "another plan on the same ranks at the same time")->type_name("PLAN");
  add_number(*net, "--burst", &flags->burst, "tiles that travel together (0: chosen)", std::int64_t{0});
  add_number(*net, "--links", &flags->links, "links to list (5)", 0);
  add_step_flags(net, &flags->step);
  net->add_flag("--every-rank", flags->every_rank, "simulate all ranks, even where one of each class is enough");
  net->add_flag("--unproved", flags->unproved, "do not prove the plan first; one that gets stuck says where");
  add_out_file(*net, "--trace", &flags->trace, "a timeline, for ui.perfetto.dev");
  add_number(*net, "--trace-ranks", &flags->trace_ranks, "ranks on it (16)", 0);
  add_number(*net, "--trace-links", &flags->trace_links, "links on it, the hottest (64)", 0);
  net->add_option("--chakra", flags->chakra, "write the step as a Chakra trace, PREFIX.RANK.et and PREFIX.groups.json")
      ->type_name("PREFIX");
  add_out_file(*net, "--svg", &flags->svg, "a chart of the operators: computing, exposed, hidden");
  net->add_flag("--json", flags->json, "one JSON object on standard output");
  net->footer(
      "Example:\n  weft plan ar --ranks 128 --m 4096 --n 4096 --route ring --save ar.json\n"
      "  weft sim net ar.json --network torus-16x8\n"
      "  weft sim net ar.json --network torus-16x8 --slow-link \"rank 3>rank 4=2\" --json\n"
      "  weft sim net llama-2-70b --network rails-128x8 --chip h200-like --forward fused --backward fused");
  net->callback([=] { *chosen = [flags] { return run_net(*flags); }; });
}

}  // namespace weft::cli::sim
