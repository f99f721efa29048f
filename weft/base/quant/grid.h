// The grid that a block's scales span: value j is step[j / 16] * q - shift[j / 16], with q of low to high. Rounding
// weights is choosing the grid, then an integer for each value, then packing both; who rounds with compensation
// (compensate.h) comes between the two.
#pragma once

#include <array>
#include <cstdint>

#include "weft/base/dtype.h"

namespace weft {

struct BlockGrid {
  std::array<float, 16> step{}, shift{};
  std::array<float, 16> inverse{};  // of step; 0 where that is 0
  int low = 0, high = 0;

  int nearest(std::int64_t j, float value) const;
  float value(std::int64_t j, int q) const;
};

// Scales for the values of one block, written to `block`, whose integers become zero. They make the sum of squared
// errors small, each times `importance`, which is at least 0 (null: all alike). The dtype is one of blocks.
BlockGrid choose_grid(Dtype dtype, const float* values, const float* importance, std::uint8_t* block);

// The integers of one block, beside the scales that are there.
void put_integers(Dtype dtype, const int* q, std::uint8_t* block);

}  // namespace weft
