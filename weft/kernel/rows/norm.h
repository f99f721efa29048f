// Norms over rows, f32 in and out: root-mean-square, and layer norm. The bits of a row depend on that row alone.
#pragma once

#include <cstdint>

namespace weft {

struct RmsNorm {
  const float* weight;  // (cols)
  float eps = 1e-5f;
};

// y = x * (1 / sqrt(mean(x^2) + eps)) * weight for each row. The mean is summed in the fixed order of gemv. y may be x.
void rms_norm(std::int64_t rows, std::int64_t cols, const RmsNorm& norm, const float* x, std::int64_t ldx, float* y,
              std::int64_t ldy);

struct LayerNorm {
  const float* weight;          // (cols)
  const float* bias = nullptr;  // (cols); null: none
  float eps = 1e-5f;
};

// y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias for each row, the means summed in float64.
// y may be x.
void layer_norm(std::int64_t rows, std::int64_t cols, const LayerNorm& norm, const float* x, std::int64_t ldx, float* y,
                std::int64_t ldy);

}  // namespace weft
