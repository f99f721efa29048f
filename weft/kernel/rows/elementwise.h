// What lies between products in a block, element by element, f32: gates of feed-forward layers, low-rank cross layers,
// weighted sums of experts. A product is rounded before it is added, on every machine.
#pragma once

#include <cstdint>

#include "weft/base/choices.h"

namespace weft {

// y (rows, cols) = activation(x[:, 0 .. cols)) * x[:, cols .. 2 cols). y overlaps x nowhere.
void gate(std::int64_t rows, std::int64_t cols, Activation activation, const float* x, std::int64_t ldx, float* y,
          std::int64_t ldy);

// y = a * b + c, each of `count` elements; y may be any of them.
void multiply_add(std::int64_t count, const float* a, const float* b, const float* c, float* y);

// y = y + scale * x; they overlap nowhere.
void add_scaled(std::int64_t count, float scale, const float* x, float* y);

}  // namespace weft
