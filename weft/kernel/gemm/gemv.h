// Matrix times vector for decoding: y = w . x with w row-major, so every output is one contiguous dot product
// and the weights are read once, at memory speed. A dot product is summed in 16 lanes (element p into lane p
// % 16, product rounded, then added) that are folded 16 -> 8 -> 4 -> 2 -> 1. The bits of an output depend on
// its row of w and on x alone: not on how rows are split, nor on the instruction set.
#pragma once

#include <cstdint>

#include "weft/base/dtype.h"

namespace weft {

// With more vectors than these, GemmKernel from b_transposed is the quicker. Zen 4, one thread, GF/s of gemv and of
// gemm at 24, 32 and 64 vectors: bf16, k 2048, 68 and 61, 72 and 74, 73 and 89; f32, 76 and 55, 82 and 64, 88 and 81.
// With the 16 registers of avx2 gemv needs two instructions where gemm needs one: at 8, 12 and 16 vectors bf16, k 2048,
// 50 and 41, 50 and 57, 51 and 64; f32, 35 and 31, 35 and 44, 37 and 52.
std::int64_t most_gemv_rows();

// y[r] = sum over p < k of w[r * ldw + p] * x[p], for r < rows. w is f32 or bf16, else bad_input.
void gemv(std::int64_t rows, std::int64_t k, const void* w, Dtype w_dtype, std::int64_t ldw, const float* x, float* y);

struct GemvBatch {
  std::int64_t m;  // vectors
  const float* x;  // (m, k) with ldx
  std::int64_t ldx;
  float* y;  // (m, rows) with ldy
  std::int64_t ldy;
  std::int64_t rows_to_come = 0;  // rows of w behind these that a later call will ask for; only speed depends on it
  // y = addend + w . x where there is one, in this order, rounded once more; and a second place may get the same.
  const float* addend = nullptr;  // (m, rows)
  std::int64_t addend_ld = 0;
  float* twin = nullptr;
  std::int64_t twin_ld = 0;
  bool huge_pages = false;  // w has them; only speed depends on it
};

// The same for m vectors, each with the bits that gemv would give it; w is read from memory once.
void gemv(std::int64_t rows, std::int64_t k, const void* w, Dtype w_dtype, std::int64_t ldw, const GemvBatch& batch);

}  // namespace weft
