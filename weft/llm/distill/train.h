// The training of one dropped block on one rank, in step with the others.
#pragma once

#include <functional>
#include <vector>

#include "weft/llm/distill/block.h"
#include "weft/llm/distill/distill.h"

namespace weft {

// Which samples are trained on and which only measured: the last sixteenth, at least one batch, is not trained on,
// unless there is nothing else.
struct SampleSplit {
  std::int64_t train = 0, check_begin = 0, check_end = 0;
};
SampleSplit split_samples(std::int64_t samples, std::int64_t batch);

struct TrainingData {
  const Activations& inputs;
  const Activations& targets;
  SampleSplit split;
};

// The mean loss of the dropped block on the samples that are not trained on.
double check_loss(RankBlock& block, const TrainingData& data, const DistillOptions& options, const float* weights);

// Trains `weights`, this rank's shard, in place. `step` is told (epoch, mean loss of the epoch so far) after every
// step.
void train_block(RankBlock& block, const TrainingData& data, const DistillOptions& options, std::uint64_t seed,
                 std::vector<float>* weights, const std::function<void(int, double)>& step);

std::int64_t training_steps(const SampleSplit& split, const DistillOptions& options);

}  // namespace weft
