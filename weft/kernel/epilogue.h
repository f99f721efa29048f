// What happens to a tile between the GEMM and the store: bias, activation, residual. In place, element by
// element, so the bits of an element do not depend on the tile it is in nor on the instruction set.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

enum class Activation {
  none,
  relu,  // max(x, 0)
  gelu,  // the tanh form: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
  silu,  // x / (1 + exp(-x))
};

std::string_view to_string(Activation activation);
Activation parse_activation(std::string_view name);  // throws bad_input

struct Epilogue {
  const float* bias = nullptr;      // (cols), or null
  const float* residual = nullptr;  // (rows, cols) with residual_ld, or null
  std::int64_t residual_ld = 0;
  Activation activation = Activation::none;
};

// tile = activation(tile + bias) + residual, f32. gelu and silu are off by at most 4e-7 * max(1, |exact|),
// which the tests check for |x| <= 13. NaN stays NaN.
void apply(std::int64_t rows, std::int64_t cols, const Epilogue& epilogue, float* tile, std::int64_t ld);

}  // namespace weft
