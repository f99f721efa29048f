#include "weft/kernel/cached_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/gemv.h"

namespace weft {
namespace {

CachedAttentionShape checked(CachedAttentionShape s) {
  if (std::min({s.heads, s.kv_heads, s.head_dim, s.capacity}) < 1)
    bad_input(
        "cached attention of {} heads over {} of the cache, {} columns each, {} positions: all must be at least 1",
        s.heads, s.kv_heads, s.head_dim, s.capacity);
  if (s.window < 0)
    bad_input("cached attention: the window is {}; use 0 for none, or the number of keys seen", s.window);
  if (s.kv_of.empty()) {
    if (s.heads % s.kv_heads != 0)
      bad_input("cached attention: {} heads cannot share {} of the cache evenly; say which reads which (kv_of)",
                s.heads, s.kv_heads);
    for (std::int64_t h = 0; h < s.heads; ++h) s.kv_of.push_back(static_cast<std::int32_t>(h / (s.heads / s.kv_heads)));
  }
  if (static_cast<std::int64_t>(s.kv_of.size()) != s.heads)
    bad_input("cached attention: kv_of has {} entries for {} heads; give one a head", s.kv_of.size(), s.heads);
  for (const std::int32_t kv : s.kv_of)
    if (kv < 0 || kv >= s.kv_heads)
      bad_input("cached attention: kv_of names head {} of the cache, which has {}", kv, s.kv_heads);
  if (s.scale == 0) s.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  return s;
}

}  // namespace

struct CachedAttention::State {
  CachedAttentionShape shape;
  int threads;
  std::vector<std::vector<float>> scores;  // of each thread

  void head(const AttentionRows& s, std::int64_t h, std::int64_t ldq, std::int64_t ldy, std::vector<float>& weights);
};

CachedAttention::CachedAttention(const CachedAttentionShape& shape, int threads)
    : state_(std::make_unique<State>(State{checked(shape), threads, {}})) {
  state_->scores.assign(static_cast<std::size_t>(threads),
                        std::vector<float>(static_cast<std::size_t>(shape.capacity)));
}

CachedAttention::~CachedAttention() = default;

const CachedAttentionShape& CachedAttention::shape() const { return state_->shape; }

std::int64_t CachedAttention::cache_floats() const {
  return state_->shape.kv_heads * state_->shape.capacity * state_->shape.head_dim;
}

void CachedAttention::append(const KvCache& cache, std::int64_t position, std::int64_t rows, const float* k,
                             std::int64_t ldk, const float* v, std::int64_t ldv) const {
  const CachedAttentionShape& s = state_->shape;
  if (position < 0 || rows < 0 || position + rows > s.capacity)
    bad_input("cached attention: rows {} to {} go beyond the {} positions of the cache", position, position + rows,
              s.capacity);
  for (std::int64_t h = 0; h < s.kv_heads; ++h)
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at = (h * s.capacity + position + i) * s.head_dim;
      std::memcpy(cache.k + at, k + i * ldk + h * s.head_dim, static_cast<std::size_t>(s.head_dim) * sizeof(float));
      std::memcpy(cache.v + at, v + i * ldv + h * s.head_dim, static_cast<std::size_t>(s.head_dim) * sizeof(float));
    }
}

void CachedAttention::State::head(const AttentionRows& s, std::int64_t h, std::int64_t ldq, std::int64_t ldy,
                                  std::vector<float>& weights) {
  const std::int64_t d = shape.head_dim, base = shape.kv_of[static_cast<std::size_t>(h)] * shape.capacity;
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const std::int64_t end = s.position + i + 1;
    const std::int64_t begin = shape.window > 0 ? std::max<std::int64_t>(0, end - shape.window) : 0;
    gemv(end - begin, d, s.cache.k + (base + begin) * d, Dtype::f32, d, s.q + i * ldq + h * d, weights.data());
    const float top = *std::max_element(weights.begin(), weights.begin() + (end - begin));
    double sum = 0;
    for (std::int64_t j = 0; j < end - begin; ++j) {
      float& weight = weights[static_cast<std::size_t>(j)];
      sum += weight = std::exp((weight - top) * shape.scale);
    }
    float* y = s.y + i * ldy + h * d;
    std::fill_n(y, d, 0.0f);
    for (std::int64_t j = begin; j < end; ++j) {
      const float weight = weights[static_cast<std::size_t>(j - begin)] / static_cast<float>(sum);
      for (std::int64_t c = 0; c < d; ++c) y[c] += weight * s.cache.v[(base + j) * d + c];
    }
  }
}

void CachedAttention::run(ThreadPool& threads, std::span<const AttentionRows> sequences, std::int64_t ldq,
                          std::int64_t ldy) {
  State& state = *state_;
  if (threads.size() > state.threads)
    bad_input("cached attention was made for {} threads, not {}", state.threads, threads.size());
  for (const AttentionRows& s : sequences)
    if (s.position < 0 || s.rows < 0 || s.position + s.rows > state.shape.capacity)
      bad_input("cached attention: rows {} to {} go beyond the {} positions of the cache", s.position,
                s.position + s.rows, state.shape.capacity);
  threads.run([&](int thread) {
    std::int64_t item = 0;
    for (const AttentionRows& s : sequences)
      for (std::int64_t h = 0; h < state.shape.heads; ++h)
        if (item++ % threads.size() == thread)
          state.head(s, h, ldq, ldy, state.scores[static_cast<std::size_t>(thread)]);
  });
}

}  // namespace weft
