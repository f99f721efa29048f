#include "weft/study/net/plan_run.h"

#include <algorithm>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/json_out.h"
#include "weft/base/units.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"
#include "weft/sim/net/step_times.h"
#include "weft/study/net/links_report.h"

namespace weft::netsim {
namespace {

StepSeconds seconds_of(const PlanRequest& request, const Plan& plan) {
  if (!request.cluster.empty() + !request.chip.empty() + !request.steps.empty() > 1)
    bad_input("steps take their time from one place; give one of --cluster, --chip and --steps");
  if (!request.cluster.empty()) return step_seconds(plan, rates_of(load_cluster(request.cluster)));
  if (!request.chip.empty()) return step_seconds(plan, rates_of(sim::load_chip(request.chip)));
  if (!request.steps.empty()) return step_seconds(plan, load_step_table(request.steps));
  return {};
}

}  // namespace

double PlanRun::hidden_s() const { return std::max(comm_s() - result.exposed_seconds(), 0.0); }

PlanRun run_plans(const PlanRequest& request, const Topology& topology) {
  PlanRun run;
  run.topology = topology;
  run.plan = load_plan(request.plan);
  if (!request.beside.empty()) run.beside = load_plan(request.beside);
  if (run.beside && (!request.chip.empty() || !request.cluster.empty() || !request.steps.empty()))
    bad_input("--beside {} is for collectives alone; leave --cluster, --chip and --steps out", request.beside);
  if (request.prove) {
    require_runnable(run.plan);
    if (run.beside) require_runnable(*run.beside);
  }
  NetOptions options;
  options.script = {request.burst, seconds_of(request, run.plan)};
  options.ranks = request.ranks;
  options.keep_slices = request.keep_slices;
  std::vector<Job> jobs{{&run.plan, {}, 0}};
  if (run.beside) jobs.push_back({&*run.beside, {}, 0});
  const std::int64_t start = now_ns();
  run.result = simulate(jobs, run.topology, options);
  run.wall_s = seconds_since(start);
  if (run.result.compute > 0) {
    options.script.step_seconds = nullptr;
    options.keep_slices = false;
    run.alone = simulate(jobs, run.topology, options);
  }
  return run;
}

std::string plan_run_json(const PlanRun& r, int most_links) {
  using Json = nlohmann::ordered_json;
  Json ends = Json::array();
  for (const Time end : r.result.ends) ends.push_back(sim::to_seconds(end) * 1e6);
  const Json out{{"plan", r.plan.name},
                 {"network", r.topology.name},
                 {"kind", to_string(r.topology.kind)},
                 {"ranks", r.result.ranks},
                 {"time_us", r.result.seconds() * 1e6},
                 {"ends_us", ends},
                 {"compute_us", sim::to_seconds(r.result.compute) * 1e6},
                 {"comm_us", r.comm_s() * 1e6},
                 {"exposed_us", r.result.exposed_seconds() * 1e6},
                 {"hidden_us", r.hidden_s() * 1e6},
                 {"bound_us", sim::to_seconds(r.result.bound) * 1e6},
                 {"chain_us", sim::to_seconds(r.result.chain) * 1e6},
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
  return json_line(out);
}

std::string plan_run_text(const PlanRun& r, int most_links) {
  const NetResult& x = r.result;
  std::string out = fmt::format("plan \"{}\" on network {} ({}, {} ranks)\n", r.plan.name, r.topology.name,
                                to_string(r.topology.kind), r.topology.num_ranks);
  out += fmt::format("time {}: computing {}, communication exposed {}, hidden {}\n", time_text(x.end),
                     time_text(x.compute), format_duration(x.exposed_seconds()), format_duration(r.hidden_s()));
  if (x.ends.size() > 1)
    out += fmt::format("the plan beside it, \"{}\", ends after {}\n", r.beside->name, time_text(x.ends[1]));
  out += fmt::format("at least {}: the hottest link's bytes {}, the longest chain without waiting for links {}\n",
                     time_text(std::max(x.bound, x.chain)), time_text(x.bound), time_text(x.chain));
  out += fmt::format("moved {} in {} messages and {} signals; {}, {}; {} events in {}\n", format_bytes(x.bytes),
                     x.messages, x.signals, simulated_text(x),
                     x.burst == 1 ? "tile by tile" : fmt::format("in bursts of {} tiles", x.burst), x.events,
                     format_duration(r.wall_s));
  return out + links_text(x, r.topology, most_links);
}

}  // namespace weft::netsim
