// Root-mean-square norm over rows, f32 in and out.
#pragma once

#include <cstdint>

namespace weft {

struct RmsNorm {
  const float* weight;  // (cols)
  float eps = 1e-5f;
};

// y = x * (1 / sqrt(mean(x^2) + eps)) * weight for each row. The mean is summed in the fixed order of gemv,
// so the bits of a row depend on that row alone. y may be x.
void rms_norm(std::int64_t rows, std::int64_t cols, const RmsNorm& norm, const float* x, std::int64_t ldx, float* y,
              std::int64_t ldy);

}  // namespace weft
