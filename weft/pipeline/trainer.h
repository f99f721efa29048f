// Trains a model on the ranks of a world, one stage on each of the meshes that the config lays out. The order of work
// is a schedule of weft/schedule, read as data: the trainer knows no kind of schedule.
//
// The way of a micro-batch: tokens -> embedding -> blocks -> (reshard to the next stage) -> .. -> head -> loss, and
// back: each stage sends the gradient of its input before it computes the gradients of its weights. After the last
// micro-batch of a step gradients are added up over ranks that hold the same weights, scaled down to a largest norm,
// and given to AdamW, which every rank does for its own weights.
#pragma once

#include <memory>
#include <vector>

#include "weft/pipeline/config.h"
#include "weft/pipeline/parameters.h"
#include "weft/pipeline/stage.h"
#include "weft/pipeline/token_data.h"
#include "weft/schedule/costs.h"
#include "weft/world/world.h"

namespace weft::pipeline {

struct StepReport {
  std::int64_t step = 0;  // 1 is the first
  double loss = 0;        // mean over the tokens of the step, before it changes the weights
  double gradient_norm = 0;
  double lr = 0;
  double seconds = 0, tokens_per_s = 0;
};

struct TrainerOptions {
  int threads = 1;  // of each rank, that compute
  ComputePace pace;
};

class Trainer {
 public:
  // Collective. The config is settled and has as many ranks as the world. Weights have their first values.
  Trainer(World& world, const TrainConfig& config, const TokenData& data, const TrainerOptions& options = {});
  ~Trainer();

  StepReport step();  // collective; the same loss on all ranks
  std::int64_t steps() const;
  std::vector<double> peak_activations();  // per stage, as counted; collective
  // Per stage: what the first of its ranks waited for other stages in a step, on average since the second. Collective.
  std::vector<double> waited_s();

  // Per stage, of one micro-batch: what its work took on the first of its ranks without waiting for other stages, on
  // average since the second step, and what its transfers to its neighbours take as planned. Collective.
  Costs costs();

  const ParameterList& parameters() const;
  // This rank's, for checkpoints and tests.
  std::span<float> weights();
  AdamW& optimiser();
  void set_steps(std::int64_t steps);  // as if so many had been made; before the first

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The schedule of a config: backward is split where transfers overlap and weights are delayed.
Schedule schedule_of(const TrainConfig& config);

}  // namespace weft::pipeline
