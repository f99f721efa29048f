// Products with weights in blocks (base/quant/blocks.h). The weights are never widened: a row of activations is
// rounded to signed bytes and bytes meet bytes in integers. A rank's columns may begin and end anywhere: its rows
// begin with the block that has its first column, and the activations have zeros where the block has columns of
// others.
//   blocks of 32    each has a scale, its largest magnitude / 127. The products of a block are summed exactly; the sum,
//                   widened, times the product of the two scales is added into one of 8 lanes, one per block of 256
//                   columns, and the lanes are folded 8 -> 4 -> 2 -> 1
//   blocks of 256   each has a scale, its largest magnitude / 127 / largest_factor, and each part of 32 a factor, the
//                   smallest whole number that suffices for it. The products, times the factor and the weights' own
//                   integer scale, are summed exactly; the sum, widened, times the product of the two scales is added
//                   block by block. q4_k's minima times the sums of x's bytes are added alike, by themselves
//   rounding        byte = value / (scale factor) to the nearest (ties to even); a block below 2^-100 is zero, one with
//                   a value that is not finite is NaN
// Floats are rounded after each product and each sum. So the bits of an output depend on its row, on x and on where the
// columns begin: neither on the instruction set, nor on the batch, nor on how rows are split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/dtype.h"

namespace weft {

class ThreadPool;

struct QuantWeight {
  const std::byte* data = nullptr;  // row 0: the block that has its first column
  Dtype dtype = Dtype::q8_0;        // one of blocks
  std::int64_t rows = 0, cols = 0;
  std::int64_t first = 0;       // columns of the first block that come before the first; less than a block
  std::int64_t ld = 0;          // columns from row to row, whole blocks
  const float* bias = nullptr;  // (rows), added to the finished sum; null: none
};

struct QuantProduct {
  QuantWeight w;
  float* y = nullptr;  // (m, w.rows) with ldy
  std::int64_t ldy = 0;
};

// Each y = x (m, w.cols) . w^T + bias, threads sharing the rows of all weights; x is rounded once for those of one
// kind. bad_input where sizes or dtype cannot be. No y overlaps anything.
void quant_matmul(ThreadPool& threads, std::int64_t m, std::span<const QuantProduct> products, const float* x,
                  std::int64_t ldx);
void quant_matmul(ThreadPool& threads, std::int64_t m, const QuantWeight& w, const float* x, std::int64_t ldx, float* y,
                  std::int64_t ldy);

// The same by plain loops and in double precision: weights widened, activations rounded as above. The test of the
// others.
void quant_matmul_naive(std::int64_t m, const QuantWeight& w, const float* x, std::int64_t ldx, double* y,
                        std::int64_t ldy);

}  // namespace weft
