// A training step or a trace run on a network, and what is told of it: its time, operator by operator, and the links.
#pragma once

#include <string>

#include "weft/sim/step/run.h"

namespace weft::netsim {

struct StepRun {
  StepGraph graph;
  Topology topology;
  StepResult result;
  double wall_s = 0;  // of the simulation
};
StepRun run_step(StepGraph graph, const Topology& topology, const StepRunOptions& options = {});

// For people, and one line for programs; with the hottest links, at most so many.
std::string step_run_text(const StepRun& run, int most_links);
std::string step_run_json(const StepRun& run, int most_links);

}  // namespace weft::netsim
