#include "weft/nn/norm.h"

#include <cmath>

#include "weft/base/index.h"
#include "weft/nn/linear.h"

namespace weft {
namespace {

struct RowScale {
  float mean, scale;
};

// Sums in double: a row's bits depend on the row alone, and gradients are not spoiled by the sum.
RowScale row_scale(const Norm& norm, const float* x) {
  const auto cols = static_cast<double>(norm.cols);
  double sum = 0, squares = 0;
  if (norm.kind == NormKind::layer)
    for (std::int64_t j = 0; j < norm.cols; ++j) sum += x[j];
  const double mean = sum / cols;
  for (std::int64_t j = 0; j < norm.cols; ++j) squares += (x[j] - mean) * (x[j] - mean);
  return {static_cast<float>(mean), static_cast<float>(1 / std::sqrt(squares / cols + norm.eps))};
}

// With n = (x - mean) * scale and g = weight * dy: dx = scale * (g - n * mean(g n) [- mean(g), layer norm]).
void row_backward(const Norm& norm, const float* x, const RowScale& row, const float* dy, float* dx, Into into) {
  const auto cols = static_cast<double>(norm.cols);
  double along = 0, sum = 0;
  for (std::int64_t j = 0; j < norm.cols; ++j) {
    const double g = static_cast<double>(norm.weight[j]) * dy[j];
    along += g * ((x[j] - row.mean) * row.scale);
    sum += g;
  }
  const auto mean_along = static_cast<float>(along / cols);
  const float mean_g = norm.kind == NormKind::layer ? static_cast<float>(sum / cols) : 0.0f;
  for (std::int64_t j = 0; j < norm.cols; ++j) {
    const float n = (x[j] - row.mean) * row.scale;
    const float value = row.scale * (norm.weight[j] * dy[j] - n * mean_along - mean_g);
    dx[j] = into == Into::add ? dx[j] + value : value;
  }
}

}  // namespace

void norm_forward(ThreadPool& pool, std::int64_t rows, const Norm& norm, RowsIn x, RowsOut y, NormRows* kept) {
  kept->mean.resize(num(rows));
  kept->scale.resize(num(rows));
  share_out(pool, rows, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* from = x.data + i * x.ld;
      float* to = y.data + i * y.ld;
      const RowScale row = row_scale(norm, from);
      kept->mean[at(i)] = row.mean;
      kept->scale[at(i)] = row.scale;
      for (std::int64_t j = 0; j < norm.cols; ++j) to[j] = (from[j] - row.mean) * row.scale * norm.weight[j];
      if (norm.bias != nullptr)
        for (std::int64_t j = 0; j < norm.cols; ++j) to[j] += norm.bias[j];
    }
  });
}

void norm_backward(ThreadPool& pool, std::int64_t rows, const Norm& norm, RowsIn x, const NormRows& kept, RowsIn dy,
                   RowsOut dx, Into into, const NormGradients& gradients) {
  const float *mean = kept.mean.data(), *scale = kept.scale.data();
  if (dx.data != nullptr)
    share_out(pool, rows, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        row_backward(norm, x.data + i * x.ld, {mean[i], scale[i]}, dy.data + i * dy.ld, dx.data + i * dx.ld, into);
    });
  share_out(pool, norm.cols, 64, [&](std::int64_t begin, std::int64_t end) {  // columns: the order of a sum stays
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = begin; j < end; ++j)
        gradients.weight[j] += dy.data[i * dy.ld + j] * ((x.data[i * x.ld + j] - mean[i]) * scale[i]);
  });
  if (gradients.bias != nullptr) add_column_sums(pool, rows, norm.cols, dy, gradients.bias);
}

}  // namespace weft
