// A linear layer: y = x . w^T + bias, weights (out, in) as model files keep them.
#pragma once

#include <cstdint>

#include "weft/nn/product.h"

namespace weft {

struct LinearLayer {
  std::int64_t in = 0, out = 0;
  const float* weight = nullptr;  // (out, in)
  const float* bias = nullptr;    // (out), or null
};
struct LinearGradients {
  float* weight = nullptr;  // (out, in); added to
  float* bias = nullptr;    // (out); added to; null where the layer has none
};

void linear_forward(Products& products, std::int64_t rows, const LinearLayer& layer, RowsIn x, RowsOut y);

// Of the parameters. dx, which others may wait for, is products.times(dy, weight).
void linear_backward_weights(Products& products, std::int64_t rows, const LinearLayer& layer, RowsIn x, RowsIn dy,
                             const LinearGradients& gradients);

// sums (cols) += the sum of all rows, row after row.
void add_column_sums(ThreadPool& pool, std::int64_t rows, std::int64_t cols, RowsIn from, float* sums);

}  // namespace weft
