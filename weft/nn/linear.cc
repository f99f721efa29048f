#include "weft/nn/linear.h"

namespace weft {

void linear_forward(Products& products, std::int64_t rows, const LinearLayer& layer, RowsIn x, RowsOut y) {
  products.times_transposed({rows, layer.out, layer.in}, x, {layer.weight, layer.in}, y);
  if (layer.bias == nullptr) return;
  share_out(products.pool(), rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < layer.out; ++j) y.data[i * y.ld + j] += layer.bias[j];
  });
}

void linear_backward_weights(Products& products, std::int64_t rows, const LinearLayer& layer, RowsIn x, RowsIn dy,
                             const LinearGradients& gradients) {
  products.transposed_times({layer.out, layer.in, rows}, dy, x, {gradients.weight, layer.in}, Into::add);
  if (gradients.bias != nullptr) add_column_sums(products.pool(), rows, layer.out, dy, gradients.bias);
}

void add_column_sums(ThreadPool& pool, std::int64_t rows, std::int64_t cols, RowsIn from, float* sums) {
  share_out(pool, cols, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = begin; j < end; ++j) sums[j] += from.data[i * from.ld + j];
  });
}

}  // namespace weft
