#include "weft/kernel/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::int64_t kBlock = 64;

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

// The heights and widths of blocks: whole, and what is left over.
std::vector<std::int64_t> sizes(std::int64_t length) {
  std::vector<std::int64_t> out;
  if (length >= kBlock) out.push_back(kBlock);
  if (length % kBlock != 0) out.push_back(length % kBlock);
  return out;
}

GemmKernel score_kernel(const AttentionShape& s) {
  const auto lengths = sizes(s.sequence);
  return {{.tile_rows = kBlock, .tile_cols = kBlock, .k = s.qk_dim, .lda = s.ldq, .ldb = kBlock}, lengths, lengths};
}

// For blocks of that many keys: k of a kernel is fixed, so the last block has a kernel of its own.
GemmKernel value_kernel(const AttentionShape& s, std::int64_t keys) {
  const std::int64_t widths[] = {s.v_dim};
  return {
      {.tile_rows = kBlock, .tile_cols = s.v_dim, .k = keys, .lda = kBlock, .ldb = s.ldv}, sizes(s.sequence), widths};
}

// Four elements at a time: what every machine has, and enough beside the products.
constexpr std::int64_t kLanes = 4;
typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef std::uint32_t Bits __attribute__((vector_size(4 * kLanes)));
typedef float LooseVec __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

Vec load(const float* p) { return *reinterpret_cast<const LooseVec*>(p); }
void store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }

// e^x for x <= 0, within 2e-7 of it: x = n ln 2 + r, and the sum with 1.5 * 2^23 leaves n in the low bits.
Vec exp_of(Vec x) {
  constexpr float kRound = 12582912.0f;
  x = x < -87.0f ? Vec{} - 87.0f : x;
  const Vec shifted = x * 1.44269504f + kRound;
  const Vec n = shifted - kRound;
  const Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts, the first exact times n
  Vec e = r * (1.0f / 720) + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  e = e * r + 1.0f;
  return e * reinterpret_cast<Vec>((reinterpret_cast<Bits>(shifted) + 127u) << 23);
}

float largest_of(const float* row, std::int64_t count) {  // count is a multiple of kLanes
  Vec top = load(row);
  for (std::int64_t j = kLanes; j < count; j += kLanes) {
    const Vec next = load(row + j);
    top = next > top ? next : top;
  }
  return std::max(std::max(top[0], top[1]), std::max(top[2], top[3]));
}

// row = e^(row * scale - top); returns the sum.
float weigh(float* row, std::int64_t count, float scale, float top) {
  Vec sum{};
  for (std::int64_t j = 0; j < count; j += kLanes) {
    const Vec weights = exp_of(load(row + j) * scale - top);
    store(row + j, weights);
    sum += weights;
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

Attention::Attention(const AttentionShape& shape)
    : shape_(checked(shape)),
      scores_(score_kernel(shape_)),
      values_(value_kernel(shape_, std::min(kBlock, shape_.sequence))),
      last_values_(value_kernel(shape_, (shape_.sequence - 1) % kBlock + 1)),
      keys_(static_cast<std::size_t>(shape_.qk_dim * kBlock)),
      tile_(kBlock * kBlock),
      made_(static_cast<std::size_t>(kBlock * shape_.v_dim)),
      largest_(static_cast<std::size_t>(shape_.sequence)),
      sum_(static_cast<std::size_t>(shape_.sequence)),
      scratch_(std::max({scores_.scratch_bytes(), values_.scratch_bytes(), last_values_.scratch_bytes()})) {}

void Attention::run(const float* q, const float* k, const float* v, float* y) {
  const std::int64_t group = shape_.heads / shape_.kv_heads;
  for (std::int64_t h = 0; h < shape_.heads; ++h)
    run_head(q + h * shape_.qk_dim, k + h / group * shape_.qk_dim, v + h / group * shape_.v_dim, y + h * shape_.v_dim);
}

// A block of keys is transposed once and meets every block of queries that sees it; y holds the sums not yet divided.
void Attention::run_head(const float* q, const float* k, const float* v, float* y) {
  const AttentionShape& s = shape_;
  std::fill(largest_.begin(), largest_.end(), -std::numeric_limits<float>::infinity());
  std::fill(sum_.begin(), sum_.end(), 0.0f);
  for (std::int64_t i = 0; i < s.sequence; ++i) std::fill_n(y + i * s.ldy, s.v_dim, 0.0f);
  for (std::int64_t key = 0; key < s.sequence; key += kBlock) {
    const std::int64_t count = std::min(kBlock, s.sequence - key);
    for (std::int64_t j = 0; j < count; ++j)
      for (std::int64_t d = 0; d < s.qk_dim; ++d)
        keys_[static_cast<std::size_t>(d * kBlock + j)] = k[(key + j) * s.ldk + d];
    for (std::int64_t query = key; query < s.sequence; query += kBlock) add_block(key, q, v, query, y);
  }
  for (std::int64_t i = 0; i < s.sequence; ++i) {
    const float scale = 1.0f / sum_[static_cast<std::size_t>(i)];
    for (std::int64_t d = 0; d < s.v_dim; ++d) y[i * s.ldy + d] *= scale;
  }
}

void Attention::add_block(std::int64_t key, const float* q, const float* v, std::int64_t query, float* y) {
  const AttentionShape& s = shape_;
  const std::int64_t rows = std::min(kBlock, s.sequence - query), keys = std::min(kBlock, s.sequence - key);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.qk_dim));
  scores_.run(rows, keys, q + query * s.ldq, keys_.data(), {tile_.data(), kBlock}, scratch_.data());
  float shrink[kBlock];
  for (std::int64_t i = 0; i < rows; ++i) {
    float* row = tile_.data() + i * kBlock;
    const std::int64_t seen = query == key ? i + 1 : keys;
    const std::int64_t whole = (seen + kLanes - 1) / kLanes * kLanes;  // at most kBlock
    float& largest = largest_[static_cast<std::size_t>(query + i)];
    float& sum = sum_[static_cast<std::size_t>(query + i)];
    std::fill(row + seen, row + kBlock, -std::numeric_limits<float>::infinity());
    const float top = std::max(largest, largest_of(row, whole) * scale);
    shrink[i] = sum == 0 ? 0.0f : std::exp(largest - top);
    sum = sum * shrink[i] + weigh(row, whole, scale, top);  // what is not seen weighs 2^-125 at most
    std::fill(row + seen, row + kBlock, 0.0f);
    largest = top;
  }
  const GemmKernel& values = keys == kBlock ? values_ : last_values_;
  values.run(rows, s.v_dim, tile_.data(), v + key * s.ldv, {made_.data(), s.v_dim}, scratch_.data());
  for (std::int64_t i = 0; i < rows; ++i) {
    float* out = y + (query + i) * s.ldy;
    const float* made = made_.data() + i * s.v_dim;
    for (std::int64_t d = 0; d < s.v_dim; ++d) out[d] = out[d] * shrink[i] + made[d];
  }
}

}  // namespace weft
