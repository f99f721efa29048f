// A training step or a trace on a network: what `weft sim net WORKLOAD|TRACE` and `weft sim scale` share.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "weft/sim/step/run.h"
#include "weft/sim/step/training.h"

#include "cli/command.h"

namespace weft::cli::sim {

struct StepFlags {
  int tp = 0, pp = 0, dp = 0, ep = 0, micro_batches = 0, panels = 4, pieces = 8, update_parts = 1;
  std::int64_t micro_batch = 0;
  std::string schedule, forward = "bulk", backward = "bulk", reduction = "all_reduce", route = "auto", cluster, chip;
  double fused_factor = 1, update_factor = 1;
};
void add_step_flags(CLI::App* command, StepFlags* flags);

bool is_workload(const std::string& name_or_path);  // rather than a plan
Training training_of(const Workload& workload, const StepFlags& flags);
netsim::TrainingOptions options_of(const StepFlags& flags);

struct StepReport {
  netsim::StepGraph graph;
  Topology topology;
  netsim::StepResult result;
  double wall_s = 0;
};
StepReport run_step(netsim::StepGraph graph, const Topology& topology, const netsim::StepRunOptions& options);
void print_step(const StepReport& report, int most_links, bool json);

}  // namespace weft::cli::sim
