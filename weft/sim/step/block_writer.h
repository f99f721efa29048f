// The nodes of one block of a model, forward and backward, for one micro-batch: products and the collectives that go
// with them, bulk, in panels or fused.
#pragma once

#include <utility>
#include <vector>

#include "weft/sim/net/digits.h"
#include "weft/sim/step/training.h"

namespace weft::netsim {

// A program under way.
struct Flow {
  ProgramWriter program;
  std::int32_t last = -1;      // that computes
  ProgramWriter::Nodes front;  // what has to be done before what comes next has its input
};

// A product and what it exchanges, in the manner asked for.
struct Exchange {
  std::string name;
  double seconds = 0;
  Collective before = Collective::none, after = Collective::none;
  std::int64_t before_bytes = 0, after_bytes = 0;
  std::int32_t communicator = -1;
  int ranks = 1;
  Overlap overlap = Overlap::bulk;
};

class BlockWriter {
 public:
  BlockWriter(const Workload& micro, const Training& training, const TrainingOptions& options, GraphWriter* graph);

  void forward(Flow* flow);
  void backward(Flow* flow, bool inputs, bool weights);
  // Groups that sum gradients, and how many weights of a block each sums.
  const std::vector<std::pair<std::int32_t, double>>& weights() const { return weights_; }
  std::int32_t stages() const { return stages_; }  // the communicator of pp
  std::int64_t boundary_bytes() const { return boundary_bytes_; }
  bool ep_is_alone() const { return ep_is_alone_; }  // no gradients are summed over dp and ep together

 private:
  void count_weights();
  Exchange exchange_of(const SubLayer& layer) const;

  const Workload& micro_;
  const TrainingOptions& options_;
  GraphWriter& graph_;
  std::vector<SubLayer> forward_, backward_;
  std::int32_t split_ = -1, stages_ = -1, replicas_ = -1, everybody_ = -1;  // communicators
  int split_ranks_ = 1;
  std::int64_t boundary_bytes_ = 0;
  std::vector<std::pair<std::int32_t, double>> weights_;
  bool ep_is_alone_ = true;
};

// Adds it. `input`: what brings its input has to wait for this; the product waits for flow->front too.
void add_exchange(const Exchange& exchange, const TrainingOptions& options, GraphWriter* graph, Flow* flow,
                  const ProgramWriter::Nodes& input);

StepGraph dlrm_step(const Workload& workload, const Training& training, const TrainingOptions& options);

}  // namespace weft::netsim
