#include "weft/llm/distill/train.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "weft/base/index.h"
#include "weft/nn/adamw.h"
#include "weft/nn/loss.h"

namespace weft {
namespace {

constexpr std::int64_t kCheckShare = 16;
constexpr std::int64_t kWarmUpShare = 20;

// The same on every machine, unlike std::shuffle.
void shuffle(std::mt19937_64& random, std::vector<std::int64_t>* order) {
  for (std::size_t i = order->size(); i > 1; --i) std::swap((*order)[i - 1], (*order)[random() % i]);
}

// The samples of one step in a row; those of one are where they are.
class Samples {
 public:
  Samples(std::int64_t values, std::int64_t samples) : values_(values), samples_(samples) {
    if (samples > 1) rows_.resize(num(values));
  }
  const float* of(const Activations& from, const std::int64_t* which) {
    if (samples_ == 1) return from.sample(*which);
    const std::int64_t each = values_ / samples_;
    for (std::int64_t i = 0; i < samples_; ++i) std::copy_n(from.sample(which[i]), each, rows_.begin() + i * each);
    return rows_.data();
  }

 private:
  std::int64_t values_, samples_;
  std::vector<float> rows_;
};

}  // namespace

SampleSplit split_samples(std::int64_t samples, std::int64_t batch) {
  const std::int64_t usable = samples / batch * batch;
  const std::int64_t check = std::max(usable / kCheckShare / batch, std::int64_t{1}) * batch;
  if (check >= usable) return {usable, 0, usable};
  return {usable - check, usable - check, usable};
}

std::int64_t training_steps(const SampleSplit& split, const DistillOptions& options) {
  return split.train / options.batch * options.epochs;
}

double check_loss(RankBlock& block, const TrainingData& data, const DistillOptions& options, const float* weights) {
  std::vector<float> out(num(block.values()));
  double sum = 0;
  for (std::int64_t first = data.split.check_begin; first < data.split.check_end; first += options.batch) {
    block.dropped(weights, data.inputs.sample(first), out.data());
    sum += mean_square_loss(block.pool(), block.values(), out.data(), data.targets.sample(first), nullptr);
  }
  return sum * options.batch / (data.split.check_end - data.split.check_begin);
}

void train_block(RankBlock& block, const TrainingData& data, const DistillOptions& options, std::uint64_t seed,
                 std::vector<float>* weights, const std::function<void(int, double)>& step) {
  AdamW optimiser(std::ssize(*weights), {.weight_decay = static_cast<float>(options.weight_decay)});
  const std::int64_t steps = training_steps(data.split, options);
  const LearningRate rate{.peak = options.lr, .warm_up = steps / kWarmUpShare, .steps = steps};
  std::vector<std::int64_t> order(num(data.split.train));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(seed);
  Samples inputs(block.values(), options.batch), targets(block.values(), options.batch);
  std::vector<float> out(num(block.values())), gradients(weights->size());
  std::int64_t taken = 0;
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    shuffle(random, &order);
    double sum = 0;
    for (std::int64_t at = 0; at + options.batch <= data.split.train; at += options.batch, ++taken) {
      block.dropped(weights->data(), inputs.of(data.inputs, order.data() + at), out.data());
      sum += mean_square_loss(block.pool(), block.values(), out.data(), targets.of(data.targets, order.data() + at),
                              out.data());
      std::fill(gradients.begin(), gradients.end(), 0.0f);
      block.dropped_backward(weights->data(), out.data(), gradients.data());
      if (options.clip > 0) {
        const float factor = clip_factor(block.squared_norm(gradients.data()), options.clip);
        if (factor != 1.0f)
          for (float& gradient : gradients) gradient *= factor;
      }
      optimiser.step(block.pool(), static_cast<float>(rate.at(taken)), gradients, *weights);
      step(epoch, sum * options.batch / (at + options.batch));
    }
  }
}

}  // namespace weft
