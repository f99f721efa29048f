#include "weft/kernel/gemm/gemv.h"

#include <algorithm>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

void check_dtype(Dtype dtype) {
  if (dtype != Dtype::f32 && dtype != Dtype::bf16 && dtype != Dtype::f16)
    bad_input("the matrix of a gemv is {}; use f32, bf16 or f16", to_string(dtype));
}

// Rows made before they are added and copied: as many as the first-level cache holds. Fewer at a time are slower: a
// store to lines that another core has read holds up the stores behind it, and a row of them is asked for at once (what
// two threads add that exchange 1024 floats after each gemv: 0.8 us in one go, 0.9 to 0.97 by 64).
constexpr std::int64_t kDelivery = 4096;

// Elements r to r + count of vector i.
void deliver(const GemvBatch& batch, std::int64_t i, std::int64_t r, std::int64_t count) {
  float* y = batch.y + i * batch.ldy + r;
  if (batch.addend != nullptr) {
    const float* addend = batch.addend + i * batch.addend_ld + r;
    for (std::int64_t j = 0; j < count; ++j) y[j] = addend[j] + y[j];
  }
  if (batch.twin != nullptr) std::memcpy(batch.twin + i * batch.twin_ld + r, y, num(count) * sizeof(float));
}

}  // namespace

std::int64_t most_gemv_rows() {
  const Isa isa = best_isa();
  return isa == Isa::avx2 || isa == Isa::neon ? 10 : 24;
}

void gemv(std::int64_t rows, std::int64_t k, const void* w, Dtype w_dtype, std::int64_t ldw, const float* x, float* y) {
  gemv(rows, k, w, w_dtype, ldw, GemvBatch{1, x, k, y, rows});
}

void gemv(std::int64_t rows, std::int64_t k, const void* w, Dtype w_dtype, std::int64_t ldw, const GemvBatch& batch) {
  check_dtype(w_dtype);
  const Variant& best = variant();
  const bool delivers = batch.addend != nullptr || batch.twin != nullptr;
  const std::int64_t most = delivers ? std::max<std::int64_t>(kDelivery / std::max<std::int64_t>(batch.m, 1), 4) : rows;
  const auto* bytes = static_cast<const char*>(w);
  for (std::int64_t r = 0; r < rows; r += most) {
    const std::int64_t count = std::min(most, rows - r);
    const void* block = bytes + num(r * ldw) * size_of(w_dtype);
    const std::int64_t to_come = rows - r - count + batch.rows_to_come;
    best.gemv({block, w_dtype, count, k, ldw, to_come, batch.huge_pages},
              {batch.m, batch.x, batch.ldx, batch.y + r, batch.ldy});
    for (std::int64_t i = 0; delivers && i < batch.m; ++i) deliver(batch, i, r, count);
  }
}

}  // namespace weft
