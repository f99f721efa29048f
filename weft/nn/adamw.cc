#include "weft/nn/adamw.h"

#include <cmath>
#include <numbers>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/nn/product.h"

namespace weft {

AdamW::AdamW(std::int64_t count, const AdamWOptions& options)
    : options_(options), mean_(num(count)), square_(num(count)) {}

void AdamW::step(ThreadPool& pool, float lr, std::span<const float> gradients, std::span<float> parameters) {
  if (gradients.size() != mean_.size() || parameters.size() != mean_.size())
    bad_input("AdamW was made for {} parameters but got {} and {} gradients", mean_.size(), parameters.size(),
              gradients.size());
  ++steps_;
  const auto [beta1, beta2, eps, decay] = options_;
  const auto power = static_cast<double>(steps_);
  const auto unbias1 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta1), power)));
  const auto unbias2 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta2), power)));
  share_out(pool, std::ssize(mean_), 4096, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = num(begin); i < num(end); ++i) {
      const float g = gradients[i];
      mean_[i] = beta1 * mean_[i] + (1 - beta1) * g;
      square_[i] = beta2 * square_[i] + (1 - beta2) * g * g;
      const float kept = parameters[i] - lr * decay * parameters[i];
      parameters[i] = kept - lr * (mean_[i] * unbias1) / (std::sqrt(square_[i] * unbias2) + eps);
    }
  });
}

double LearningRate::at(std::int64_t step) const {
  if (step < warm_up) return peak * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  if (steps <= warm_up) return peak;
  const double done = static_cast<double>(step - warm_up) / static_cast<double>(steps - warm_up);
  const double share = 0.5 * (1 + std::cos(std::numbers::pi * (done < 1 ? done : 1)));
  return peak * (last + (1 - last) * share);
}

double sum_of_squares(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

float clip_factor(double sum_of_squares, double most) {
  const double norm = std::sqrt(sum_of_squares);
  return most > 0 && norm > most ? static_cast<float>(most / norm) : 1.0f;
}

}  // namespace weft
