// Pipelines of known models on known hosts, as data: workloads/pipeline/*.json. What their stages compute is counted
// from the model's shape and a device's rate, what crosses between them is a set of tensors (workloads/reshard), priced
// by the planner of weft/reshard for each way of moving it. Every time here is a prediction.
//
//   "tensors"        the set, by name or path: what one micro-batch moves from a stage to the next
//   "micro_batches"  of a step
//   "params"         more whole numbers for expressions, beside those of the set
//   "forward_flops"  per stage, an expression (weft/plan/expr.h): one micro-batch, all devices of the stage together
//   "flops_per_s"    of one device, as used
//   "backward"       how many forwards a backward takes; half of it is for the weights
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/reshard/manifest.h"
#include "weft/reshard/schedule/schedule.h"
#include "weft/schedule/build.h"
#include "weft/schedule/costs.h"
#include "weft/schedule/search.h"

namespace weft {

struct PipelinePreset {
  std::string name, source;
  int micro_batches = 1;
  double backward = 2;
  std::vector<double> forward_s;  // per stage, one micro-batch
  Manifest tensors;

  int num_stages() const { return int_size(forward_s); }
};

// All throw bad_input naming file, field, value and remedy.
PipelinePreset load_preset(const std::string& name_or_path);
PipelinePreset parse_preset(std::string_view json, std::string_view where);
std::vector<std::string> preset_names();

// Seconds for the tensors of one micro-batch, forward or (their gradients) backward.
double transfer_seconds(const PipelinePreset& preset, Strategy strategy, bool forward);

struct PresetRow {
  std::string name;  // "broadcast + overlap"
  pipeline::Schedule schedule;
  pipeline::Costs costs;
  double seconds = 0, bubble = 0, peak = 0;
};
struct PresetTable {
  std::vector<PresetRow> rows;
  pipeline::Bound bound;  // of every schedule with the memory of eager_1f1b and the transfers of broadcast
};

// send_recv, local_allgather and broadcast with 1f1b, whose stages stop for transfers; broadcast overlapped, with the
// weights' part of backward after the gradient has left; the same with eager_1f1b; what a search finds within the
// memory of eager_1f1b; and the bound of the paper, eager_1f1b where every transfer is of one element.
PresetTable preset_table(const PipelinePreset& preset);

}  // namespace weft
