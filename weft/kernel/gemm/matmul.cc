#include "weft/kernel/gemm/matmul.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/gemm/gemm.h"
#include "weft/kernel/gemm/gemv.h"
#include "weft/kernel/quant/quant_rows.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

Linear checked(std::int64_t m, Linear linear, std::int64_t ldx, std::int64_t ldy) {
  if (linear.ldw == 0) linear.ldw = linear.k;
  if (linear.dtype != Dtype::f32 && linear.dtype != Dtype::bf16 && linear.dtype != Dtype::f16)
    bad_input("the weights of a product are {}; use f32, bf16 or f16", to_string(linear.dtype));
  if (m < 0 || linear.n < 0 || linear.k < 0)
    bad_input("a product of {} x {} with k = {}: sizes must be at least 0", m, linear.n, linear.k);
  if (ldx < linear.k || linear.ldw < linear.k || ldy < linear.n)
    bad_input("rows are {}, {} and {} elements apart in x, w and y, but {}, {} and {} long", ldx, linear.ldw, ldy,
              linear.k, linear.k, linear.n);
  return linear;
}

struct Rows {  // of x and y
  std::int64_t m;
  const float* x;
  std::int64_t ldx;
  float* y;
  std::int64_t ldy;
};

const void* row_of(const Linear& l, std::int64_t row) {
  return static_cast<const std::byte*>(l.w) + row * l.ldw * static_cast<std::int64_t>(size_of(l.dtype));
}

// Each thread reads one stretch of w from end to end.
void few_rows(ThreadPool& threads, const Linear& l, const Rows& rows) {
  const std::int64_t share = (l.n + threads.size() - 1) / threads.size();
  threads.run([&](int thread) {
    const std::int64_t begin = std::min(l.n, thread * share), count = std::min(share, l.n - begin);
    if (count == 0) return;
    gemv(count, l.k, row_of(l, begin), l.dtype, l.ldw,
         {.m = rows.m,
          .x = rows.x,
          .ldx = rows.ldx,
          .y = rows.y + begin,
          .ldy = rows.ldy,
          .addend = l.bias == nullptr ? nullptr : l.bias + begin,
          .addend_ld = 0,
          .huge_pages = l.huge_pages});
  });
}

// A thread's panel: kept between calls, since it is as large as the second-level cache has room for.
void* scratch_of(std::size_t bytes) {
  thread_local std::unique_ptr<void, void (*)(void*)> scratch{nullptr, std::free};
  thread_local std::size_t size = 0;
  if (bytes > size) {
    scratch.reset(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    size = scratch == nullptr ? 0 : bytes;
    if (scratch == nullptr) fail(Code::no_memory, "no memory for {} bytes of packed weights", bytes);
  }
  return scratch.get();
}

constexpr std::int64_t kColumns = 64;  // of y at a time: one panel

bool takes_pairs(const Linear& l) {
  return l.activations == Dtype::bf16 && l.dtype == Dtype::bf16 && has_bf16_products() && l.k % 2 == 0 &&
         l.ldw % 2 == 0 && reinterpret_cast<std::uintptr_t>(l.w) % alignof(float) == 0;
}

// x as pairs of bf16, each where a float would be: by all threads, into memory that the caller's thread keeps.
Rows rounded(ThreadPool& threads, std::int64_t k, const Rows& rows) {
  thread_local std::vector<float> kept;
  kept.resize(std::max(kept.size(), num(rows.m * k / 2)));
  float* pairs = kept.data();
  const auto round = pair_variant(best_isa())->round;
  threads.run([&](int thread) {
    for (std::int64_t r = rows.m * thread / threads.size(); r < rows.m * (thread + 1) / threads.size(); ++r)
      round(k, rows.x + r * rows.ldx, reinterpret_cast<bf16*>(pairs + r * k / 2));
  });
  return {rows.m, pairs, k / 2, rows.y, rows.ldy};
}

// Threads take columns as they come free; a panel packed from w meets all rows of x.
void many_rows(ThreadPool& threads, const Linear& l, const Rows& given) {
  const bool pairs = takes_pairs(l);
  const std::int64_t per = pairs ? 2 : 1;  // values to an element
  const Rows rows = pairs ? rounded(threads, l.k, given) : given;
  const GemmKernel kernel({.tile_rows = rows.m,
                           .tile_cols = kColumns,
                           .k = l.k / per,
                           .lda = rows.ldx,
                           .ldb = l.ldw / per,
                           .b_dtype = pairs ? Dtype::f32 : l.dtype,
                           .b_transposed = true,
                           .pairs = pairs});
  std::atomic<std::int64_t> next{0};
  threads.run([&](int) {
    void* scratch = scratch_of(kernel.scratch_bytes());
    for (;;) {
      const std::int64_t begin = next.fetch_add(kColumns, std::memory_order_relaxed);
      if (begin >= l.n) return;
      GemmTarget target{rows.y + begin, rows.ldy};
      if (l.bias != nullptr) target.addend = l.bias + begin;
      const std::int64_t later = begin + threads.size() * kColumns;  // this thread's next, more or less
      const GemmNext ahead = later < l.n ? GemmNext{row_of(l, later), l.n - later} : GemmNext{};
      kernel.run(rows.m, std::min(kColumns, l.n - begin), rows.x, row_of(l, begin), target, scratch, ahead);
    }
  });
}

}  // namespace

void matmul(ThreadPool& threads, std::int64_t m, const Linear& described, const float* x, std::int64_t ldx, float* y,
            std::int64_t ldy) {
  if (is_blocked(described.dtype))
    return quant_matmul(threads, m,
                        {.data = static_cast<const std::byte*>(described.w),
                         .dtype = described.dtype,
                         .rows = described.n,
                         .cols = described.k,
                         .first = described.first,
                         .ld = described.ldw == 0 ? described.k : described.ldw,
                         .bias = described.bias},
                        x, ldx, y, ldy);
  const Linear linear = checked(m, described, ldx, ldy);
  if (m == 0 || linear.n == 0) return;
  const Rows rows{m, x, ldx, y, ldy};
  (m <= most_gemv_rows() ? few_rows : many_rows)(threads, linear, rows);
}

}  // namespace weft
