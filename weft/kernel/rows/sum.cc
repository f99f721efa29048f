#include "weft/kernel/rows/sum.h"

#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

void check_float(const char* what, Dtype dtype) {
  if (dtype != Dtype::f32 && dtype != Dtype::bf16 && dtype != Dtype::int8)
    bad_input("a {} of a sum or conversion is {}; use f32, bf16 or int8", what, to_string(dtype));
}

#if defined(__x86_64__)
constexpr std::size_t kLine = 64;

void stream_bytes(char* to, const char* from, std::size_t bytes) {
  const std::size_t head = std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, from, head);
  to += head, from += head, bytes -= head;
  for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
    __builtin_prefetch(from + 16 * kLine);
    for (int i = 0; i < 4; ++i)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i));
  }
  std::memcpy(to, from, bytes);
  _mm_sfence();  // such stores are ordered by nothing else, not even by a release
}
#else
void stream_bytes(char* to, const char* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
#endif

}  // namespace

void sum(std::int64_t rows, std::int64_t cols, std::span<const ConstStrip> sources, const Strip& target) {
  check_float("target", target.dtype);
  for (const ConstStrip& source : sources) check_float("source", source.dtype);
  if (!sources.empty()) return variant().sum(rows, cols, {sources.data(), sources.size()}, target);
  const auto stride = num(row_bytes(target.dtype, target.ld));
  const auto bytes = num(row_bytes(target.dtype, cols));
  for (std::int64_t r = 0; r < rows; ++r) std::memset(static_cast<char*>(target.data) + num(r) * stride, 0, bytes);
}

void copy(std::int64_t rows, std::int64_t cols, const ConstStrip& source, const Strip& target) {
  if (source.dtype != target.dtype) return sum(rows, cols, {&source, 1}, target);
  if (rows <= 0 || cols <= 0) return;
  const auto* from = static_cast<const char*>(source.data);
  auto* to = static_cast<char*>(target.data);
  const auto bytes = num(row_bytes(source.dtype, cols));
  if (source.ld == cols && target.ld == cols) {
    std::memcpy(to, from, num(rows) * bytes);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to, from, bytes);
    from += row_bytes(source.dtype, source.ld);
    to += row_bytes(target.dtype, target.ld);
  }
}

void copy_past_caches(std::int64_t rows, std::int64_t cols, const ConstStrip& source, const Strip& target) {
  if (source.dtype != target.dtype || source.ld != cols || target.ld != cols || rows <= 0 || cols <= 0)
    return copy(rows, cols, source, target);
  stream_bytes(static_cast<char*>(target.data), static_cast<const char*>(source.data),
               num(rows * row_bytes(source.dtype, cols)));
}

}  // namespace weft
