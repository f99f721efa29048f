// The text workloads of ASTRA-sim 1.0 and SimAI: a line that says how the model is split, the number of layers, then a
// line per layer: name, -1, and for forward, input gradient and weight gradient the time in nanoseconds, a collective
// and its bytes; and the time of the update.
//
//   DATA                  the gradients of weights are summed over all ranks
//   MODEL, DLRM           all collectives are of all ranks
//   HYBRID_..., others    forward and input gradients exchange within a model-parallel group of neighbours, weights'
//                         gradients among the ranks of one place of all groups. The group's size is in the line
//                         ("model_parallel_NPU_group: 8"), or `model_ranks` says it
//
// Layers go forward one after the other; backward, a layer's weight gradient starts its sum, which nobody waits for but
// the update, then its input gradient follows. SimAI's suffixes of collectives (_EP, _DP_EP) choose the same groups.
#pragma once

#include <string>
#include <string_view>

#include "weft/sim/step/trace_nodes.h"

namespace weft::netsim {

struct TextOptions {
  int ranks = 0;        // of the network
  int model_ranks = 0;  // 0: as the first line says
  TraceOptions trace;
};

// Throws bad_input naming file, line, word and remedy.
StepGraph parse_text_workload(std::string_view text, std::string_view where, const TextOptions& options);
StepGraph load_text_workload(const std::string& path, const TextOptions& options);

}  // namespace weft::netsim
