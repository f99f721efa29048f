// `weft sim net PLAN|WORKLOAD|TRACE --network NAME|FILE`: how long a plan, a training step or a trace takes on a
// network, what of it computing hides, and which links are hottest. The figures are weft/study/net's.
#include "cli/sim/net.h"

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "weft/base/error.h"
#include "weft/base/os/new_file.h"
#include "weft/sim/net/report.h"
#include "weft/sim/step/chakra.h"
#include "weft/study/net/plan_run.h"
#include "weft/study/net/step_picture.h"
#include "weft/study/net/step_run.h"

#include "cli/flag_values.h"
#include "cli/out_file.h"

namespace weft::cli::sim {
namespace {

struct NetFlags {
  std::string plan, beside, steps, trace, chakra, svg;
  NetworkFlags network;
  netsim::StepRequest step;
  std::int64_t burst = 0;
  int links = 5, trace_ranks = 16, trace_links = 64;
  bool every_rank = false, unproved = false, json = false;
};

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
  netsim::StepRequest step = flags.step;
  step.prove = !flags.unproved;
  netsim::StepRunOptions options;
  options.ranks = flags.every_rank ? netsim::Ranks::every : netsim::Ranks::folded;
  options.keep_slices = !flags.trace.empty();
  const netsim::StepRun run = run_step(load_step(flags.plan, step, topology.num_ranks), topology, options);
  if (!flags.trace.empty())
    write_file(flags.trace, step_trace(run.result, run.graph, topology, {flags.trace_ranks, flags.trace_links}));
  if (!flags.chakra.empty()) write_chakra(flags.chakra, run.graph);
  if (!flags.svg.empty()) write_file(flags.svg, operators_svg(run.result, run.graph.name));
  fmt::print("{}", flags.json ? step_run_json(run, flags.links) : step_run_text(run, flags.links));
  return 0;
}

int run_net(const NetFlags& flags) {
  if (netsim::subject_of(flags.plan) != netsim::Subject::plan) return run_graph(flags);
  if (!flags.chakra.empty() || !flags.svg.empty())
    bad_input("--chakra and --svg are of steps and traces; \"{}\" is a plan, leave them out", flags.plan);
  const netsim::PlanRequest request{.plan = flags.plan,
                                    .beside = flags.beside,
                                    .cluster = flags.step.cluster,
                                    .chip = flags.step.chip,
                                    .steps = flags.steps,
                                    .burst = flags.burst,
                                    .ranks = flags.every_rank ? netsim::Ranks::every : netsim::Ranks::folded,
                                    .prove = !flags.unproved,
                                    .keep_slices = !flags.trace.empty()};
  const netsim::PlanRun run = run_plans(request, network_of(flags.network));
  if (!flags.trace.empty()) {
    std::vector<const Plan*> plans{&run.plan};
    if (run.beside) plans.push_back(&*run.beside);
    write_file(flags.trace, net_trace(run.result, plans, run.topology, {flags.trace_ranks, flags.trace_links}));
  }
  fmt::print("{}", flags.json ? plan_run_json(run, flags.links) : plan_run_text(run, flags.links));
  return 0;
}

}  // namespace

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
