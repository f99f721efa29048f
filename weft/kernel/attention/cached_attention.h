// Causal softmax attention of a few new rows against all that went before, which lies in a cache: prefill and decode of
// language models. Query heads may share heads of k and v (grouped queries), and a sliding window may limit how far
// back a query sees. Threads share heads and blocks of queries.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft {

class ThreadPool;

struct CachedAttentionShape {
  std::int64_t heads = 0;     // of q
  std::int64_t kv_heads = 0;  // of the cache
  std::int64_t head_dim = 0;
  std::int64_t capacity = 0;  // positions that a cache has room for
  std::int64_t window = 0;    // the query at i sees keys j with i - j < window; 0: all up to i
  float scale = 0;            // of the scores; 0: 1 / sqrt(head_dim)
  float cap = 0;              // scores become cap * tanh(score / cap) before the softmax; 0: they stay
  // Of every query head, the head of the cache that it reads; empty: heads / kv_heads neighbours share one. A rank of a
  // model whose heads are split unevenly needs its own list.
  std::vector<std::int32_t> kv_of;
};

// One sequence's keys and values, (kv_heads, capacity, head_dim) each.
struct KvCache {
  float* k = nullptr;
  float* v = nullptr;
};

// The new rows of one sequence: positions [position, position + rows), whose keys and values are in the cache already.
struct AttentionRows {
  KvCache cache;
  std::int64_t position = 0, rows = 0;
  const float* q = nullptr;  // (rows, heads * head_dim) with ldq
  float* y = nullptr;        // the same shape, with ldy
};

class CachedAttention {
 public:
  // bad_input where sizes cannot be; allots scratch for `threads` threads.
  CachedAttention(const CachedAttentionShape& shape, int threads);
  ~CachedAttention();
  CachedAttention(const CachedAttention&) = delete;
  CachedAttention& operator=(const CachedAttention&) = delete;

  const CachedAttentionShape& shape() const;
  std::int64_t cache_floats() const;  // of k, and of v

  // Puts rows of k and v, (rows, kv_heads * head_dim) with ldk and ldv, at positions [position, position + rows).
  // bad_input beyond the capacity.
  void append(const KvCache& cache, std::int64_t position, std::int64_t rows, const float* k, std::int64_t ldk,
              const float* v, std::int64_t ldv) const;

  // y = softmax(scale * q k^T, capped) v for all rows of all sequences, head by head. A row's bits depend on its q, its
  // position and the cache alone: not on the rows beside it, so not on how a prompt was cut into calls, nor on threads.
  // `threads` has no more threads than announced. Not for two callers at once.
  void run(ThreadPool& threads, std::span<const AttentionRows> sequences, std::int64_t ldq, std::int64_t ldy);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
