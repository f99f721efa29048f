// The products of a model's linear layers: y = x . w^T + bias with w (n, k) row-major, as the files keep it, threads
// sharing the columns of y. Few rows go through gemv, which reads w once; more rows through GemmKernel's panels,
// packed from w on the fly (most_gemv_rows). Which of the two depends on m alone, so the bits of an element depend on
// its row of x, its row of w, its bias and m: neither on the threads nor on how columns are cut. Weights in blocks
// have kernels of their own (kernel/quant).
#pragma once

#include <cstdint>
#include <span>

#include "weft/base/dtype.h"

namespace weft {

class ThreadPool;

struct Linear {
  std::int64_t n = 0, k = 0;    // columns of y, and of x
  const void* w = nullptr;      // (n, k) with ldw
  Dtype dtype = Dtype::f32;     // of w: f32, bf16 or f16, or one of blocks
  std::int64_t ldw = 0;         // elements from row to row of w; 0: k
  const float* bias = nullptr;  // (n), added to the finished sum; null: none
  // What more rows than gemv takes are rounded to before they are multiplied. bf16: where w is bf16 too, k and ldw are
  // even and has_bf16_products(), which doubles the rate; elsewhere, and with f32, nothing is rounded.
  Dtype activations = Dtype::f32;
  std::int64_t first = 0;   // of weights in blocks: columns of a row's first block that come before x's (quant_rows.h)
  bool huge_pages = false;  // w has them; only speed depends on it
};

struct LinearOutput {
  Linear linear;
  float* y = nullptr;  // (m, n) with ldy
  std::int64_t ldy = 0;
};

// Each y (m, n) = x (m, k) . w^T + bias, f32. bad_input where sizes or dtype cannot be. No y overlaps anything.
// Products of the same rows, all of one k, as a block's q, k and v, are quicker together: x is rounded once, and
// threads meet once.
void matmul(ThreadPool& threads, std::int64_t m, std::span<const LinearOutput> products, const float* x,
            std::int64_t ldx);
void matmul(ThreadPool& threads, std::int64_t m, const Linear& linear, const float* x, std::int64_t ldx, float* y,
            std::int64_t ldy);

}  // namespace weft
