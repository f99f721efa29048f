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
  check_dtype(w_dtype);
  variant().gemv(rows, k, w, w_dtype, ldw, x, y);
}

void gemv(std::int64_t rows, std::int64_t k, const void* w, Dtype w_dtype, std::int64_t ldw, const GemvBatch& batch) {
  constexpr std::int64_t kRowsAtOnce = 4;  // few enough to stay in cache for all the vectors
  check_dtype(w_dtype);
  const Variant& best = variant();
  const auto* bytes = static_cast<const char*>(w);
  for (std::int64_t r = 0; r < rows; r += kRowsAtOnce) {
    const std::int64_t count = rows - r < kRowsAtOnce ? rows - r : kRowsAtOnce;
    const void* block = bytes + static_cast<std::size_t>(r * ldw) * size_of(w_dtype);
    for (std::int64_t i = 0; i < batch.m; ++i)
      best.gemv(count, k, block, w_dtype, ldw, batch.x + i * batch.ldx, batch.y + i * batch.ldy + r);
  }
}

}  // namespace weft
