// Matrix products of layers and of their backward passes, f32, through the gemm of weft/kernel. A linear layer of
// weights w (out, in) needs three layouts, and all are made from the one the kernel has, rows times rows, by
// transposing one side into scratch:
//   times_transposed  x . w^T     the layer itself
//   times             dy . w      the gradient of its input
//   transposed_times  dy^T . x    the gradient of its weights
// An element is one chain of multiply-adds per block of 1024 of k, in order of k: its bits depend neither on the number
// of threads nor on the other rows.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/base/thread_pool.h"

namespace weft {

struct RowsIn {
  const float* data;
  std::int64_t ld;  // elements from row to row
};
struct RowsOut {
  float* data;
  std::int64_t ld;
};
struct ProductSizes {
  std::int64_t m, n, k;
};
enum class Into { store, add };  // what becomes of the target's old values

class Products {
 public:
  explicit Products(ThreadPool* pool);

  // c (m, n) = [c +] a (m, k) . b (k, n). The target overlaps no operand. Not for two threads at once.
  void times(const ProductSizes& sizes, RowsIn a, RowsIn b, RowsOut c, Into into = Into::store);
  // c (m, n) = [c +] a (m, k) . b (n, k)^T
  void times_transposed(const ProductSizes& sizes, RowsIn a, RowsIn b, RowsOut c, Into into = Into::store);
  // c (m, n) = [c +] a (k, m)^T . b (k, n)
  void transposed_times(const ProductSizes& sizes, RowsIn a, RowsIn b, RowsOut c, Into into = Into::store);

  ThreadPool& pool() { return *pool_; }

 private:
  void transpose(std::int64_t rows, std::int64_t cols, RowsIn from);  // into turned_, (cols, rows)
  void add_block(const ProductSizes& sizes, RowsIn a, RowsIn b, RowsOut c, Into into);

  ThreadPool* pool_;
  std::vector<float> packed_, turned_;
};

// The same product on the calling thread alone, for pieces that threads share out among themselves.
class TileProduct {
 public:
  void times(const ProductSizes& sizes, RowsIn a, RowsIn b, RowsOut c, Into into = Into::store);

 private:
  std::vector<float> scratch_;
};

// to (cols, rows) = from (rows, cols)^T
void transpose_rows(std::int64_t rows, std::int64_t cols, RowsIn from, RowsOut to);

// Calls work(begin, end) on the threads of the pool for parts of [0, count), each part of whole multiples of `grain`.
template <typename Work>
void share_out(ThreadPool& pool, std::int64_t count, std::int64_t grain, const Work& work) {
  const std::int64_t pieces = (count + grain - 1) / grain, threads = pool.size();
  if (pieces <= 1 || threads == 1) {
    if (count > 0) work(std::int64_t{0}, count);
    return;
  }
  pool.run([&](int thread) {
    const std::int64_t begin = pieces * thread / threads * grain, end = pieces * (thread + 1) / threads * grain;
    if (begin < count && begin < end) work(begin, end < count ? end : count);
  });
}

}  // namespace weft
