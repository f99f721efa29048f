// What happens to a tile between the GEMM and the store: bias, activation, residual. In place, element by
// element, so the bits of an element do not depend on the tile it is in nor on the instruction set.
#pragma once

#include <cstdint>

#include "weft/base/choices.h"

namespace weft {

struct Epilogue {
  const float* bias = nullptr;      // (cols), or null
  const float* residual = nullptr;  // (rows, cols) with residual_ld, or null
  std::int64_t residual_ld = 0;
  Activation activation = Activation::none;
};

// tile = activation(tile + bias) + residual, f32. gelu, gelu_erf and silu are off by at most 4e-7 * max(1, |exact|),
// which the tests check for |x| <= 13. NaN stays NaN.
void apply(std::int64_t rows, std::int64_t cols, const Epilogue& epilogue, float* tile, std::int64_t ld);

}  // namespace weft
