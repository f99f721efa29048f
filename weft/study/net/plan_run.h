// Saved plans on a network: one, or one beside another, and what of its communication computing hides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weft/plan/plan.h"
#include "weft/sim/net/run.h"

namespace weft::netsim {

// Unchecked. Refusals call its fields as the command line does: --beside.
struct PlanRequest {
  std::string plan, beside;          // files; beside: collectives alone, on the same ranks at the same time
  std::string cluster, chip, steps;  // where steps take their time from: one of them, or none, and they take no time
  std::int64_t burst = 0;            // tiles that travel together; 0: chosen
  Ranks ranks = Ranks::folded;
  bool prove = true, keep_slices = false;
};

struct PlanRun {
  Plan plan;
  std::optional<Plan> beside;
  Topology topology;
  NetResult result;
  std::optional<NetResult> alone;  // the same without computing, where there is some
  double wall_s = 0;               // of the simulation

  double comm_s() const { return alone ? alone->seconds() : result.seconds(); }
  double hidden_s() const;
};

// Throws bad_input where a plan is not runnable, does not fit the network, or times come from several places.
PlanRun run_plans(const PlanRequest& request, const Topology& topology);

// For people, and one line for programs; with the hottest links, at most so many.
std::string plan_run_text(const PlanRun& run, int most_links);
std::string plan_run_json(const PlanRun& run, int most_links);

}  // namespace weft::netsim
