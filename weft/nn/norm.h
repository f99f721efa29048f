// Norms over rows and their backward passes: root-mean-square norm, y = x * r * weight with r = 1 / sqrt(mean(x^2) +
// eps), and layer norm, y = (x - mean) * r * weight + bias with r = 1 / sqrt(variance + eps).
#pragma once

#include <cstdint>
#include <vector>

#include "weft/nn/product.h"

namespace weft {

enum class NormKind { rms, layer };

struct Norm {
  NormKind kind = NormKind::rms;
  std::int64_t cols = 0;
  float eps = 1e-5f;
  const float* weight = nullptr;  // (cols)
  const float* bias = nullptr;    // (cols), layer norm alone
};
struct NormGradients {
  float* weight = nullptr;  // (cols); added to
  float* bias = nullptr;    // (cols); added to; null for rms
};

// What the backward pass needs of every row: x, and these two.
struct NormRows {
  std::vector<float> mean, scale;
};

void norm_forward(ThreadPool& pool, std::int64_t rows, const Norm& norm, RowsIn x, RowsOut y, NormRows* kept);

// dx is skipped where its data is null.
void norm_backward(ThreadPool& pool, std::int64_t rows, const Norm& norm, RowsIn x, const NormRows& kept, RowsIn dy,
                   RowsOut dx, Into into, const NormGradients& gradients);

}  // namespace weft
