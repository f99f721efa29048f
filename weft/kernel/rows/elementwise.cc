#include "weft/kernel/rows/elementwise.h"

#include <cstring>

#include "weft/base/index.h"
#include "weft/kernel/rows/epilogue.h"

namespace weft {

void gate(std::int64_t rows, std::int64_t cols, Activation activation, const float* x, std::int64_t ldx, float* y,
          std::int64_t ldy) {
  for (std::int64_t r = 0; r < rows; ++r, x += ldx, y += ldy) {
    std::memcpy(y, x, num(cols) * sizeof(float));
    apply(1, cols, {.activation = activation}, y, ldy);
    for (std::int64_t j = 0; j < cols; ++j) y[j] *= x[cols + j];
  }
}

void multiply_add(std::int64_t count, const float* a, const float* b, const float* c, float* y) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float product = a[i] * b[i];
    y[i] = product + c[i];
  }
}

void add_scaled(std::int64_t count, float scale, const float* x, float* y) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float product = scale * x[i];
    y[i] += product;
  }
}

}  // namespace weft
