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
  std::vector<std::string> fuse;  // traces
  std::string groups;
  bool prove = true;
};
void add_step_flags(CLI::App* command, StepFlags* flags);

// What `weft sim net` is given, by its name and content. A trace is a prefix of PREFIX.0.et, a file .et of rank 0, or a
// text workload (.txt).
enum class Subject { plan, workload, chakra, text };
Subject subject_of(const std::string& name_or_path);
// The graph of anything but a plan.
netsim::StepGraph load_step(const std::string& name_or_path, const StepFlags& flags, int network_ranks);
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
