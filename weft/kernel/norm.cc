#include "weft/kernel/norm.h"

#include <cmath>

#include "weft/kernel/gemv.h"

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

}  // namespace weft
