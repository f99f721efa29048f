#include "weft/kernel/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"

namespace weft {
namespace {

AttentionShape checked(const AttentionShape& s) {
  if (std::min({s.sequence, s.heads, s.kv_heads, s.qk_dim, s.v_dim}) < 1)
    bad_input("attention of {} rows, {} heads over {} of k and v, {} and {} columns each: all must be at least 1",
              s.sequence, s.heads, s.kv_heads, s.qk_dim, s.v_dim);
  if (s.heads % s.kv_heads != 0)
    bad_input("attention: {} heads cannot share {} heads of k and v; use a divisor", s.heads, s.kv_heads);
  if (s.ldq < s.heads * s.qk_dim || s.ldk < s.kv_heads * s.qk_dim || s.ldv < s.kv_heads * s.v_dim ||
      s.ldy < s.heads * s.v_dim)
    bad_input("attention: rows are {}, {}, {} and {} elements apart in q, k, v and y, less than their heads take",
              s.ldq, s.ldk, s.ldv, s.ldy);
  return s;
}

}  // namespace

Attention::Attention(const AttentionShape& shape)
    : shape_(checked(shape)),
      lines_({.qk_dim = shape.qk_dim,
              .v_dim = shape.v_dim,
              .ldk = shape.ldk,
              .ldv = shape.ldv,
              .scale = 1.0f / std::sqrt(static_cast<float>(shape.qk_dim))}) {}

void Attention::run(const float* q, const float* k, const float* v, float* y) {
  const std::int64_t group = shape_.heads / shape_.kv_heads;
  for (std::int64_t h = 0; h < shape_.heads; ++h)
    run_head(q + h * shape_.qk_dim, k + h / group * shape_.qk_dim, v + h / group * shape_.v_dim, y + h * shape_.v_dim);
}

void Attention::run_head(const float* q, const float* k, const float* v, float* y) {
  const AttentionShape& s = shape_;
  for (std::int64_t begin = 0; begin < s.sequence; begin += AttentionLines::kMost) {
    const std::int64_t count = std::min(AttentionLines::kMost, s.sequence - begin);
    for (std::int64_t i = 0; i < count; ++i)
      std::copy_n(q + (begin + i) * s.ldq, s.qk_dim, lines_.line(i, 0, begin + i + 1));
    lines_.run(count, k, v);
    for (std::int64_t i = 0; i < count; ++i) std::copy_n(lines_.result(i), s.v_dim, y + (begin + i) * s.ldy);
  }
}

}  // namespace weft
