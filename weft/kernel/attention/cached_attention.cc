#include "weft/kernel/attention/cached_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/attention/attention_lines.h"

namespace weft {
namespace {

CachedAttentionShape checked(CachedAttentionShape s) {
  if (std::min({s.heads, s.kv_heads, s.head_dim, s.capacity}) < 1)
    bad_input(
        "cached attention of {} heads over {} of the cache, {} columns each, {} positions: all must be at least 1",
        s.heads, s.kv_heads, s.head_dim, s.capacity);
  if (s.window < 0)
    bad_input("cached attention: the window is {}; use 0 for none, or the number of keys seen", s.window);
  if (!(s.cap >= 0)) bad_input("cached attention: scores are capped at {}; use 0 for no cap", s.cap);
  if (s.kv_of.empty()) {
    if (s.heads % s.kv_heads != 0)
      bad_input("cached attention: {} heads cannot share {} of the cache evenly; say which reads which (kv_of)",
                s.heads, s.kv_heads);
    for (std::int64_t h = 0; h < s.heads; ++h) s.kv_of.push_back(static_cast<std::int32_t>(h / (s.heads / s.kv_heads)));
  }
  if (std::ssize(s.kv_of) != s.heads)
    bad_input("cached attention: kv_of has {} entries for {} heads; give one a head", s.kv_of.size(), s.heads);
  for (const std::int32_t kv : s.kv_of)
    if (kv < 0 || kv >= s.kv_heads)
      bad_input("cached attention: kv_of names head {} of the cache, which has {}", kv, s.kv_heads);
  if (s.scale == 0) s.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  return s;
}

}  // namespace

// Lines of one head of the cache: every row of a sequence with every query head that reads it, row by row.
struct CachedAttention::State {
  struct Item {
    const AttentionRows* rows;
    std::int64_t kv_head, first, count;  // lines
  };

  CachedAttentionShape shape;
  std::vector<std::vector<std::int64_t>> heads_of;  // of each head of the cache
  std::vector<AttentionLines> lines;                // of each thread
  std::vector<Item> items;                          // of the call under way

  void list_items(std::span<const AttentionRows> sequences, int threads);
  void run(const Item& item, std::int64_t ldq, std::int64_t ldy, AttentionLines& lines) const;
};

CachedAttention::CachedAttention(const CachedAttentionShape& shape, int threads)
    : state_(std::make_unique<State>(State{checked(shape), {}, {}, {}})) {
  const CachedAttentionShape& s = state_->shape;
  state_->heads_of.resize(num(s.kv_heads));
  for (std::int64_t h = 0; h < s.heads; ++h)
    state_->heads_of[static_cast<std::size_t>(s.kv_of[static_cast<std::size_t>(h)])].push_back(h);
  for (int t = 0; t < threads; ++t)
    state_->lines.emplace_back(AttentionLines::Shape{s.head_dim, s.head_dim, s.head_dim, s.head_dim, s.scale, s.cap});
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
      std::memcpy(cache.k + at, k + i * ldk + h * s.head_dim, num(s.head_dim) * sizeof(float));
      std::memcpy(cache.v + at, v + i * ldv + h * s.head_dim, num(s.head_dim) * sizeof(float));
    }
}

// A thread takes lines of one head of the cache, as many as there may be, unless threads would have nothing to do.
void CachedAttention::State::list_items(std::span<const AttentionRows> sequences, int threads) {
  items.clear();
  const std::int64_t groups = std::ssize(sequences) * shape.kv_heads;
  const std::int64_t parts = (threads + groups - 1) / std::max<std::int64_t>(groups, 1);
  for (const AttentionRows& s : sequences)
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      const std::int64_t lines = s.rows * static_cast<std::int64_t>(heads_of[static_cast<std::size_t>(kv)].size());
      const std::int64_t most = std::clamp<std::int64_t>((lines + parts - 1) / parts, 1, AttentionLines::kMost);
      for (std::int64_t first = 0; first < lines; first += most)
        items.push_back({&s, kv, first, std::min(most, lines - first)});
    }
  // Those that see most keys first: threads end at about the same time.
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.count * (a.rows->position + a.first) > b.count * (b.rows->position + b.first);
  });
}

void CachedAttention::State::run(const Item& item, std::int64_t ldq, std::int64_t ldy, AttentionLines& lines) const {
  const AttentionRows& s = *item.rows;
  const std::int64_t d = shape.head_dim, base = item.kv_head * shape.capacity * d;
  const std::vector<std::int64_t>& heads = heads_of[static_cast<std::size_t>(item.kv_head)];
  const auto group = std::ssize(heads);
  const auto place = [&](std::int64_t line) {  // of a line's head, in a row of q or y
    return heads[static_cast<std::size_t>((item.first + line) % group)] * d;
  };
  for (std::int64_t i = 0; i < item.count; ++i) {
    const std::int64_t row = (item.first + i) / group, end = s.position + row + 1;
    const std::int64_t first = shape.window > 0 ? std::max<std::int64_t>(0, end - shape.window) : 0;
    std::copy_n(s.q + row * ldq + place(i), d, lines.line(i, first, end));
  }
  lines.run(item.count, s.cache.k + base, s.cache.v + base);
  for (std::int64_t i = 0; i < item.count; ++i)
    std::copy_n(lines.result(i), d, s.y + (item.first + i) / group * ldy + place(i));
}

void CachedAttention::run(ThreadPool& threads, std::span<const AttentionRows> sequences, std::int64_t ldq,
                          std::int64_t ldy) {
  State& state = *state_;
  if (threads.size() > int_size(state.lines))
    bad_input("cached attention was made for {} threads, not {}", state.lines.size(), threads.size());
  for (const AttentionRows& s : sequences)
    if (s.position < 0 || s.rows < 0 || s.position + s.rows > state.shape.capacity)
      bad_input("cached attention: rows {} to {} go beyond the {} positions of the cache", s.position,
                s.position + s.rows, state.shape.capacity);
  state.list_items(sequences, threads.size());
  std::atomic<std::size_t> next{0};
  threads.run([&](int thread) {
    for (;;) {
      const std::size_t item = next.fetch_add(1, std::memory_order_relaxed);
      if (item >= state.items.size()) return;
      state.run(state.items[item], ldq, ldy, state.lines[static_cast<std::size_t>(thread)]);
    }
  });
}

}  // namespace weft
