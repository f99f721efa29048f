#include "weft/kernel/sum.h"

#include <cstring>

#include "weft/base/error.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

void check_float(const char* what, Dtype dtype) {
  if (dtype != Dtype::f32 && dtype != Dtype::bf16)
    bad_input("a {} of a sum or conversion is {}; use f32 or bf16", what, to_string(dtype));
}

}  // namespace

void sum(std::int64_t rows, std::int64_t cols, std::span<const ConstStrip> sources, const Strip& target) {
  check_float("target", target.dtype);
  for (const ConstStrip& source : sources) check_float("source", source.dtype);
  if (!sources.empty()) return variant().sum(rows, cols, {sources.data(), sources.size()}, target);
  const auto stride = static_cast<std::size_t>(target.ld) * size_of(target.dtype);
  const auto bytes = static_cast<std::size_t>(cols) * size_of(target.dtype);
  for (std::int64_t r = 0; r < rows; ++r)
    std::memset(static_cast<char*>(target.data) + static_cast<std::size_t>(r) * stride, 0, bytes);
}

void copy(std::int64_t rows, std::int64_t cols, const ConstStrip& source, const Strip& target) {
  if (source.dtype != target.dtype) return sum(rows, cols, {&source, 1}, target);
  if (rows <= 0 || cols <= 0) return;
  const std::size_t size = size_of(source.dtype);
  const auto* from = static_cast<const char*>(source.data);
  auto* to = static_cast<char*>(target.data);
  if (source.ld == cols && target.ld == cols) {
    std::memcpy(to, from, static_cast<std::size_t>(rows * cols) * size);
    return;
  }
  const std::size_t bytes = static_cast<std::size_t>(cols) * size;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to, from, bytes);
    from += static_cast<std::size_t>(source.ld) * size;
    to += static_cast<std::size_t>(target.ld) * size;
  }
}

}  // namespace weft
