// One tile of a product with weights in blocks (quant_rows.h), by one thread in memory of its own: what an op makes
// while others send. The bits are those of quant_matmul.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/kernel/quant/quant_rows.h"

namespace weft {

// Memory for a tile of at most m rows of x, wherever in a block its columns begin; 64-byte aligned.
std::size_t quant_tile_bytes(std::int64_t m, std::int64_t cols);

// y (m, w.rows) = x (m, w.cols) . w^T. Sizes are the caller's to check; w has no bias.
void quant_tile(std::int64_t m, const QuantWeight& w, const float* x, std::int64_t ldx, float* y, std::int64_t ldy,
                std::byte* memory);

}  // namespace weft
