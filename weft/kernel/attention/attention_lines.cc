#include "weft/kernel/attention/attention_lines.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {
namespace {

constexpr std::int64_t kBlock = 64;  // keys at a time, and lines

constexpr float kNever = -std::numeric_limits<float>::infinity();

GemmKernel score_kernel(const AttentionLines::Shape& s) {
  return GemmKernel(
      {.tile_rows = kBlock, .tile_cols = kBlock, .k = s.qk_dim, .lda = s.qk_dim, .ldb = s.ldk, .b_transposed = true});
}

GemmKernel value_kernel(const AttentionLines::Shape& s, std::int64_t ldv) {
  return GemmKernel({.tile_rows = kBlock, .tile_cols = s.v_dim, .k = kBlock, .lda = kBlock, .ldb = ldv});
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

// row = cap * tanh(row * scale / cap), by e^-2|u|.
void cap_scores(float* row, std::int64_t count, float scale, float cap) {
  const float within = scale / cap;
  for (std::int64_t j = 0; j < count; j += kLanes) {
    const Vec u = load(row + j) * within;
    const Vec shrunk = exp_of((u < 0.0f ? u : -u) * 2.0f);
    const Vec size = cap * ((1.0f - shrunk) / (1.0f + shrunk));
    store(row + j, u < 0.0f ? -size : size);
  }
}

// One line of every page: translations are looked up long before the rest of the pages is asked for.
void touch_pages(const float* data, std::int64_t count) {
  constexpr std::int64_t kPage = 1024;  // floats
  for (std::int64_t i = 0; i < count; i += kPage) __builtin_prefetch(data + i, 0, 2);
}

}  // namespace

AttentionLines::Floats AttentionLines::floats(std::int64_t count) {
  const std::size_t bytes = num(count + 15) / 16 * 64;
  Floats out{static_cast<float*>(std::aligned_alloc(64, std::max<std::size_t>(bytes, 64))), std::free};
  if (out == nullptr) fail(Code::no_memory, "no memory for {} bytes of attention", bytes);
  return out;
}

AttentionLines::AttentionLines(const Shape& shape)
    : shape_(shape),
      scores_(score_kernel(shape)),
      values_(value_kernel(shape, shape.ldv)),
      tail_values_(value_kernel(shape, shape.v_dim)),
      queries_(floats(kMost * shape.qk_dim)),
      results_(floats(kMost * shape.v_dim)),
      keys_(floats(scores_.packed_floats(kBlock))),
      packed_(floats(values_.packed_floats(shape.v_dim))),
      tail_(floats(kBlock * shape.v_dim)),
      tile_(floats(kBlock * kBlock)),
      made_(floats(kBlock * shape.v_dim)),
      largest_(kMost),
      sum_(kMost),
      first_(kMost),
      end_(kMost) {}

float* AttentionLines::line(std::int64_t i, std::int64_t first, std::int64_t end) {
  first_[at(i)] = first;
  end_[at(i)] = end;
  return queries_.get() + i * shape_.qk_dim;
}

// A block of keys is packed once and meets every block of lines of which one sees it; results are sums not yet divided.
void AttentionLines::run(std::int64_t count, const float* k, const float* v) {
  if (count == 0) return;
  std::fill_n(largest_.begin(), count, kNever);
  std::fill_n(sum_.begin(), count, 0.0f);
  std::fill_n(results_.get(), count * shape_.v_dim, 0.0f);
  const std::int64_t end = end_[at(count - 1)];
  for (std::int64_t key = first_[0] / kBlock * kBlock; key < end; key += kBlock) {
    const Keys keys = load_keys(key, end, k, v);
    for (std::int64_t line = 0; line < count; line += kBlock) {
      const std::int64_t rows = std::min(kBlock, count - line);
      const bool sees = end_[at(line + rows - 1)] > key && first_[at(line)] < key + keys.count;
      if (sees) add_block(line, rows, keys);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const float scale = 1.0f / sum_[at(i)];
    for (std::int64_t d = 0; d < shape_.v_dim; ++d) results_[i * shape_.v_dim + d] *= scale;
  }
}

// Packing a block asks memory for the next one. Where keys end within the block, values are filled up with zeros: what
// lies behind them may be no number.
AttentionLines::Keys AttentionLines::load_keys(std::int64_t begin, std::int64_t end, const float* k, const float* v) {
  const Keys keys{begin, std::min(kBlock, end - begin)};
  const float* of_keys = k + begin * shape_.ldk;
  const float* of_values = v + begin * shape_.ldv;
  const bool more = begin + kBlock < end;
  if (begin + 2 * kBlock < end) {
    touch_pages(of_keys + 2 * kBlock * shape_.ldk, kBlock * shape_.ldk);
    touch_pages(of_values + 2 * kBlock * shape_.ldv, kBlock * shape_.ldv);
  }
  scores_.pack(keys.count, of_keys, keys_.get(), more ? of_keys + kBlock * shape_.ldk : nullptr);
  if (keys.count == kBlock) {
    values_.pack(shape_.v_dim, of_values, packed_.get(), more ? of_values + kBlock * shape_.ldv : nullptr);
    return keys;
  }
  for (std::int64_t j = 0; j < keys.count; ++j)
    std::copy_n(of_values + j * shape_.ldv, shape_.v_dim, tail_.get() + j * shape_.v_dim);
  std::fill(tail_.get() + keys.count * shape_.v_dim, tail_.get() + kBlock * shape_.v_dim, 0.0f);
  tail_values_.pack(shape_.v_dim, tail_.get(), packed_.get());
  return keys;
}

// scores = the weights of the keys that the line sees, and zeros. Returns by what the sums so far shrink.
float AttentionLines::weigh_line(std::int64_t line, const Keys& keys, float* scores) {
  const auto i = num(line);
  const std::int64_t first = std::clamp<std::int64_t>(first_[i] - keys.begin, 0, keys.count);
  const std::int64_t end = std::clamp<std::int64_t>(end_[i] - keys.begin, 0, keys.count);
  if (first >= end) {
    std::fill_n(scores, kBlock, 0.0f);
    return 1;
  }
  const std::int64_t begin = first / kLanes * kLanes, whole = (end + kLanes - 1) / kLanes * kLanes;  // at most kBlock
  const float scale = shape_.cap > 0 ? 1.0f : shape_.scale;
  if (shape_.cap > 0) cap_scores(scores + begin, whole - begin, shape_.scale, shape_.cap);
  std::fill(scores + begin, scores + first, kNever);
  std::fill(scores + end, scores + whole, kNever);
  const float top = std::max(largest_[i], largest_of(scores + begin, whole - begin) * scale);
  const float shrink = sum_[i] == 0 ? 0.0f : std::exp(largest_[i] - top);
  // What is not seen weighs 2^-125 at most.
  sum_[i] = sum_[i] * shrink + weigh(scores + begin, whole - begin, scale, top);
  largest_[i] = top;
  std::fill(scores, scores + first, 0.0f);
  std::fill(scores + end, scores + kBlock, 0.0f);
  return shrink;
}

void AttentionLines::add_block(std::int64_t line, std::int64_t rows, const Keys& keys) {
  const std::int64_t width = shape_.v_dim;
  scores_.run_packed(rows, keys.count, queries_.get() + line * shape_.qk_dim, keys_.get(), {tile_.get(), kBlock});
  float shrink[kBlock];
  for (std::int64_t i = 0; i < rows; ++i) shrink[i] = weigh_line(line + i, keys, tile_.get() + i * kBlock);
  values_.run_packed(rows, width, tile_.get(), packed_.get(), {made_.get(), width});
  for (std::int64_t i = 0; i < rows; ++i) {
    float* out = results_.get() + (line + i) * width;
    const float* made = made_.get() + i * width;
    for (std::int64_t d = 0; d < width; ++d) out[d] = out[d] * shrink[i] + made[d];
  }
}

}  // namespace weft
