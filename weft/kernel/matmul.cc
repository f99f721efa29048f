#include "weft/kernel/matmul.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/epilogue.h"
#include "weft/kernel/gemv.h"

namespace weft {
namespace {

Linear checked(std::int64_t m, Linear linear, std::int64_t ldx, std::int64_t ldy) {
  if (linear.ldw == 0) linear.ldw = linear.k;
  if (linear.dtype != Dtype::f32 && linear.dtype != Dtype::bf16)
    bad_input("the weights of a product are {}; use f32 or bf16", to_string(linear.dtype));
  if (m < 0 || linear.n < 0 || linear.k < 0)
    bad_input("a product of {} x {} with k = {}: sizes must be at least 0", m, linear.n, linear.k);
  if (ldx < linear.k || linear.ldw < linear.k || ldy < linear.n)
    bad_input("rows are {}, {} and {} elements apart in x, w and y, but {}, {} and {} long", ldx, linear.ldw, ldy,
              linear.k, linear.k, linear.n);
  return linear;
}

}  // namespace

void matmul(ThreadPool& threads, std::int64_t m, const Linear& described, const float* x, std::int64_t ldx, float* y,
            std::int64_t ldy) {
  const Linear l = checked(m, described, ldx, ldy);
  const std::int64_t share = (l.n + threads.size() - 1) / threads.size();
  threads.run([&](int thread) {
    const std::int64_t begin = std::min(l.n, thread * share), count = std::min(share, l.n - begin);
    if (count == 0) return;
    const auto* w = static_cast<const std::byte*>(l.w) + begin * l.ldw * static_cast<std::int64_t>(size_of(l.dtype));
    gemv(count, l.k, w, l.dtype, l.ldw, {.m = m, .x = x, .ldx = ldx, .y = y + begin, .ldy = ldy});
    if (l.bias != nullptr) apply(m, count, {.bias = l.bias + begin}, y + begin, ldy);
  });
}

}  // namespace weft
