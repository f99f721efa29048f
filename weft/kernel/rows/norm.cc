#include "weft/kernel/rows/norm.h"

#include <cmath>

#include "weft/kernel/gemm/gemv.h"

namespace weft {

void rms_norm(std::int64_t rows, std::int64_t cols, const RmsNorm& norm, const float* x, std::int64_t ldx, float* y,
              std::int64_t ldy) {
  for (std::int64_t r = 0; r < rows; ++r, x += ldx, y += ldy) {
    float squares = 0;
    gemv(1, cols, x, Dtype::f32, ldx, x, &squares);
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(cols) + norm.eps);
    for (std::int64_t j = 0; j < cols; ++j) y[j] = (x[j] * scale) * norm.weight[j];
  }
}

namespace {

// In 8 chains: one alone would wait for its own additions.
template <typename Term>
double mean_of(std::int64_t cols, Term&& term) {
  double sums[8] = {};
  std::int64_t j = 0;
  for (; j + 8 <= cols; j += 8)
    for (int lane = 0; lane < 8; ++lane) sums[lane] += term(j + lane);
  for (; j < cols; ++j) sums[0] += term(j);
  return (((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))) /
         static_cast<double>(cols);
}

}  // namespace

void layer_norm(std::int64_t rows, std::int64_t cols, const LayerNorm& norm, const float* x, std::int64_t ldx, float* y,
                std::int64_t ldy) {
  for (std::int64_t r = 0; r < rows; ++r, x += ldx, y += ldy) {
    const double mean = mean_of(cols, [x](std::int64_t j) { return static_cast<double>(x[j]); });
    const double variance = mean_of(cols, [x, mean](std::int64_t j) { return (x[j] - mean) * (x[j] - mean); });
    const auto center = static_cast<float>(mean);
    const auto scale = static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(norm.eps)));
    for (std::int64_t j = 0; j < cols; ++j) y[j] = ((x[j] - center) * scale) * norm.weight[j];
    if (norm.bias != nullptr)
      for (std::int64_t j = 0; j < cols; ++j) y[j] += norm.bias[j];
  }
}

}  // namespace weft
