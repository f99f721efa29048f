#include "weft/kernel/gemm/matmul.h"

#include <algorithm>
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

// With ldw filled in.
LinearOutput checked(std::int64_t m, LinearOutput product, std::int64_t ldx) {
  Linear& linear = product.linear;
  if (linear.ldw == 0) linear.ldw = linear.k;
  if (linear.dtype != Dtype::f32 && linear.dtype != Dtype::bf16 && linear.dtype != Dtype::f16)
    bad_input("the weights of a product are {}; use f32, bf16 or f16", to_string(linear.dtype));
  if (m < 0 || linear.n < 0 || linear.k < 0)
    bad_input("a product of {} x {} with k = {}: sizes must be at least 0", m, linear.n, linear.k);
  if (ldx < linear.k || linear.ldw < linear.k || product.ldy < linear.n)
    bad_input("rows are {}, {} and {} elements apart in x, w and y, but {}, {} and {} long", ldx, linear.ldw,
              product.ldy, linear.k, linear.k, linear.n);
  return product;
}

struct Rows {  // of x
  std::int64_t m;
  const float* x;
  std::int64_t ldx;
};

const void* row_of(const Linear& l, std::int64_t row) {
  return static_cast<const std::byte*>(l.w) + row * l.ldw * static_cast<std::int64_t>(size_of(l.dtype));
}

// Each thread reads one stretch of each of the weights from end to end.
void few_rows(ThreadPool& threads, std::span<const LinearOutput> products, const Rows& rows) {
  threads.run([&](int thread) {
    for (const auto& [l, y, ldy] : products) {
      const std::int64_t share = (l.n + threads.size() - 1) / threads.size();
      const std::int64_t begin = std::min(l.n, thread * share), count = std::min(share, l.n - begin);
      if (count == 0) continue;
      gemv(count, l.k, row_of(l, begin), l.dtype, l.ldw,
           {.m = rows.m,
            .x = rows.x,
            .ldx = rows.ldx,
            .y = y + begin,
            .ldy = ldy,
            .addend = l.bias == nullptr ? nullptr : l.bias + begin,
            .addend_ld = 0,
            .huge_pages = l.huge_pages});
    }
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
  return {rows.m, pairs, k / 2};
}

// Threads take columns as they come free; a panel packed from w meets all rows of x.
void many_rows(ThreadPool& threads, std::span<const LinearOutput> products, const Rows& given) {
  struct Packed {
    bool pairs;
    GemmKernel kernel;
  };
  std::vector<Packed> packed;
  std::vector<std::int64_t> panels;
  Rows pairs{};
  for (const auto& [l, y, ldy] : products) {
    const bool paired = takes_pairs(l);
    const std::int64_t per = paired ? 2 : 1;  // values to an element
    if (paired && pairs.x == nullptr) pairs = rounded(threads, l.k, given);
    packed.push_back({paired, GemmKernel({.tile_rows = given.m,
                                          .tile_cols = kColumns,
                                          .k = l.k / per,
                                          .lda = paired ? pairs.ldx : given.ldx,
                                          .ldb = l.ldw / per,
                                          .b_dtype = paired ? Dtype::f32 : l.dtype,
                                          .b_transposed = true,
                                          .pairs = paired})});
    panels.push_back((l.n + kColumns - 1) / kColumns);
  }
  deal(threads, panels, [&](std::size_t p, std::int64_t panel) {
    const auto& [l, y, ldy] = products[p];
    const auto& [paired, kernel] = packed[p];
    const std::int64_t begin = panel * kColumns, later = begin + threads.size() * kColumns;
    GemmTarget target{y + begin, ldy};
    if (l.bias != nullptr) target.addend = l.bias + begin;
    const GemmNext ahead =
        later < l.n ? GemmNext{row_of(l, later), l.n - later} : GemmNext{};  // this thread's, more or less
    kernel.run(given.m, std::min(kColumns, l.n - begin), paired ? pairs.x : given.x, row_of(l, begin), target,
               scratch_of(kernel.scratch_bytes()), ahead);
  });
}

QuantProduct in_blocks(const LinearOutput& product) {
  const Linear& l = product.linear;
  return {{.data = static_cast<const std::byte*>(l.w),
           .dtype = l.dtype,
           .rows = l.n,
           .cols = l.k,
           .first = l.first,
           .ld = l.ldw == 0 ? l.k : l.ldw,
           .bias = l.bias},
          product.y,
          product.ldy};
}

}  // namespace

void matmul(ThreadPool& threads, std::int64_t m, std::span<const LinearOutput> products, const float* x,
            std::int64_t ldx) {
  std::vector<QuantProduct> blocked;
  std::vector<LinearOutput> plain;
  for (const LinearOutput& product : products) {
    if (product.linear.k != products[0].linear.k)
      bad_input("products of the same rows with k = {} and {}; x has one width", products[0].linear.k,
                product.linear.k);
    if (is_blocked(product.linear.dtype))
      blocked.push_back(in_blocks(product));
    else if (const LinearOutput one = checked(m, product, ldx); one.linear.n > 0)
      plain.push_back(one);
  }
  if (!blocked.empty()) quant_matmul(threads, m, blocked, x, ldx);
  if (m == 0 || plain.empty()) return;
  (m <= most_gemv_rows() ? few_rows : many_rows)(threads, plain, {m, x, ldx});
}

void matmul(ThreadPool& threads, std::int64_t m, const Linear& linear, const float* x, std::int64_t ldx, float* y,
            std::int64_t ldy) {
  const LinearOutput one{linear, y, ldy};
  matmul(threads, m, {&one, 1}, x, ldx);
}

}  // namespace weft
