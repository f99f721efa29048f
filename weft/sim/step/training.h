// One training step of a workload as a graph (graph.h): forward and backward passes in the order of a pipeline's
// schedule, tensor- or expert-parallel collectives in every block, transfers between stages, the replicas' sum of
// gradients, and the update of weights.
//
//   ranks      digits (dp, ep, pp, tp), tp fastest: a stage's ranks of tp are neighbours, replicas farthest apart
//   order      a rank computes in the schedule's order. A product waits for what the collective before it brings; the
//              gradient of weights waits for none, so it hides the collective of the gradient of its input
//   gradients  of a block are summed over the replicas when its last micro-batch is through; updates come last
//   dlrm       lookup; its all_to_all is beside the bottom layers, the top layers wait for it; backward likewise; the
//              tables' update waits for the gradients' all_to_all, a layer's for its all_reduce, which nobody else
//              waits for
//
// A rank takes for a product the longer of its arithmetic and its memory traffic. Norms, activations, the vocabulary
// and the loss are left out.
#pragma once

#include "weft/sim/step/writer.h"

namespace weft::netsim {

struct TrainingOptions {
  Overlap forward = Overlap::bulk, backward = Overlap::bulk;
  int panels = 4;
  Reduction reduction = Reduction::all_reduce;
  double flops_per_s = 0, bytes_per_s = 0;  // of a rank: arithmetic, memory
  double fused_factor = 1;                  // on the time of a producer that is fused: it leaves room for communication
  double update_factor = 1;  // dlrm: on the traffic of a table's update, 2 * pooled rows for each row of a gradient
  int update_parts = 1;      // dlrm: the gradients' exchange and the update go in so many parts, one beside the next
  PlanOptions plans;
};

// Throws bad_input where the workload cannot be split so, naming what cannot.
StepGraph training_step(const Workload& workload, const Training& training, const TrainingOptions& options);

// Seconds of one piece of work on a rank.
double work_seconds(const SubLayer& layer, const TrainingOptions& options);

}  // namespace weft::netsim
