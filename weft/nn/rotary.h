// Rotary positions, the half-rotation of Hugging Face: columns j and j + d/2 of a head turn by the angle of the row's
// position. Turning back is the backward pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/nn/product.h"

namespace weft {

struct RotaryTable {
  std::int64_t head_dim = 0;
  std::vector<float> cos, sin;  // (positions, head_dim / 2)
};

// `inverse_frequencies` (head_dim / 2), scaling included; `magnitude` multiplies cos and sin (1 for most models).
RotaryTable make_rotary_table(std::int64_t positions, std::span<const double> inverse_frequencies,
                              double magnitude = 1);

enum class Turn { forward, backward };

// x (rows, heads * head_dim) in place; row i has position i.
void rotate(ThreadPool& pool, std::int64_t rows, std::int64_t heads, const RotaryTable& table, RowsOut x, Turn turn);

}  // namespace weft
