// Some rows of weights in blocks by some rounded rows of x (rounded.h), by one thread in memory of its own: what
// quant_matmul shares out among threads, and what an op makes while others send.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/kernel/quant/quant_rows.h"
#include "weft/kernel/quant/rounded.h"

namespace weft {

// Rows of w that threads should take at a time; 0: each its share in one go, since few rows of x do not pay for more.
std::int64_t quant_tile_rows(std::int64_t m);

// Memory for at most m rows of x, wherever in a block its columns begin; 64-byte aligned.
std::size_t quant_tile_bytes(std::int64_t m, std::int64_t cols);

// y (m, w.rows) = x (m, w.cols) . w^T, x rounded for w. Sizes are the caller's to check; w's bias is not added.
void quant_tile(std::int64_t m, const QuantWeight& w, const RoundedRows& x, float* y, std::int64_t ldy,
                std::byte* memory);

inline RoundedForm rounded_form(const QuantWeight& w) { return {w.dtype, w.first, w.cols}; }

}  // namespace weft
