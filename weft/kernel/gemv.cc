#include "weft/kernel/gemv.h"

#include "weft/base/error.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

void check_dtype(Dtype dtype) {
  if (dtype != Dtype::f32 && dtype != Dtype::bf16)
    bad_input("the matrix of a gemv is {}; use f32 or bf16", to_string(dtype));
}

}  // namespace

void gemv(std::int64_t rows, std::int64_t k, const void* w, Dtype w_dtype, std::int64_t ldw, const float* x, float* y) {
  gemv(rows, k, w, w_dtype, ldw, GemvBatch{1, x, k, y, rows});
}

void gemv(std::int64_t rows, std::int64_t k, const void* w, Dtype w_dtype, std::int64_t ldw, const GemvBatch& batch) {
  check_dtype(w_dtype);
  const Variant& best = variant();
  const std::int64_t at_once = batch.m == 1 ? rows : 4;  // few enough to stay in cache for all the vectors
  const auto* bytes = static_cast<const char*>(w);
  for (std::int64_t r = 0; r < rows; r += at_once) {
    const std::int64_t count = rows - r < at_once ? rows - r : at_once;
    const void* block = bytes + static_cast<std::size_t>(r * ldw) * size_of(w_dtype);
    for (std::int64_t i = 0; i < batch.m; ++i) {
      // The first vector brings in what follows for all.
      const std::int64_t to_come = i == 0 ? rows - r - count + batch.rows_to_come : 0;
      best.gemv({block, w_dtype, count, k, ldw, to_come}, batch.x + i * batch.ldx, batch.y + i * batch.ldy + r);
    }
  }
}

}  // namespace weft
