// A training step or a trace on a network as somebody asks for it, in words and sizes, and the graph that it is.
// Refusals call its fields as the command line does: --reduction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/cluster/workload.h"
#include "weft/sim/step/training.h"

namespace weft::netsim {

// Unchecked. 0 and "" of a training's sizes: the workload's own.
struct StepRequest {
  int tp = 0, pp = 0, dp = 0, ep = 0, micro_batches = 0, panels = 4, pieces = 8, update_parts = 1;
  std::int64_t micro_batch = 0;
  std::string schedule, forward = "bulk", backward = "bulk", reduction = "all_reduce", route = "auto";
  std::string cluster, chip;  // a rank's rates, from one of them
  double fused_factor = 1, update_factor = 1;
  std::vector<std::string> fuse;  // traces
  std::string groups;
  bool prove = true;
};

// What can be run on a network, by its name and content. A trace is a prefix of PREFIX.0.et, a file .et of rank 0, or a
// text workload (.txt).
enum class Subject { plan, workload, chakra, text };
Subject subject_of(const std::string& name_or_path);

// All throw bad_input.
StepGraph load_step(const std::string& name_or_path, const StepRequest& request, int network_ranks);  // but of a plan
Training training_of(const Workload& workload, const StepRequest& request);
TrainingOptions training_options(const StepRequest& request);

}  // namespace weft::netsim
