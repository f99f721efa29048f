// AdamW: Adam with weight decay apart from the gradient (Loshchilov and Hutter), over one flat array of parameters; the
// learning rate of a step from a warm-up and a cosine; and gradients scaled down to a largest norm.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/base/thread_pool.h"

namespace weft {

struct AdamWOptions {
  float beta1 = 0.9f, beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 0;  // a step takes lr * weight_decay of every weight
};

class AdamW {
 public:
  AdamW(std::int64_t count, const AdamWOptions& options);

  // One step: moments are corrected for having begun at zero. An element's bits depend on that element's gradients
  // alone, so replicas with the same gradients stay the same.
  void step(ThreadPool& pool, float lr, std::span<const float> gradients, std::span<float> parameters);

  // All that it remembers, for checkpoints: the moments, and how many steps were made.
  std::span<float> mean() { return mean_; }
  std::span<float> square() { return square_; }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  AdamWOptions options_;
  std::int64_t steps_ = 0;
  std::vector<float> mean_, square_;  // moments of the gradients
};

struct LearningRate {
  double peak = 1e-3;
  std::int64_t warm_up = 0;  // steps over which it grows from peak / warm_up
  std::int64_t steps = 0;    // then it falls along a cosine to `last` * peak at this step; 0: it stays
  double last = 0;

  double at(std::int64_t step) const;  // step 0, 1, ...
};

double sum_of_squares(std::span<const float> values);
// What to multiply gradients with so that their norm is at most `most`; 1 where it is, and where most is 0.
float clip_factor(double sum_of_squares, double most);

}  // namespace weft
