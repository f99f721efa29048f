// The attention of a block: q, k and v, their norms and positions, and softmax over what the caches hold.
#include <algorithm>
#include <cmath>

#include "weft/base/index.h"
#include "weft/llm/engine/engine_state.h"
#include "weft/llm/engine/parallel_rows.h"

namespace weft {

void Engine::State::norm_heads(const BlockWeights& w, float* q, float* k, std::int64_t ld) {
  const std::int64_t heads = shard().heads.size(), kv = shard().kv_heads.size();
  parallel_rows(threads, rows, (heads + kv) * config().head_dim, [&](std::int64_t begin, std::int64_t end) {
    norm_each_head(config(), w.q_norm, end - begin, heads, q + begin * ld, ld);
    norm_each_head(config(), w.k_norm, end - begin, kv, k + begin * ld, ld);
  });
}

// The norm over all heads needs what every rank's heads add to the sum of squares. A key head that several ranks have
// counts for the rank that has the first of its query heads. Ranks without heads take part with zeros.
void Engine::State::norm_all_heads(const BlockWeights& w, float* q, float* k, std::int64_t ld) {
  const ModelConfig& c = config();
  const std::int64_t d = c.head_dim, group = c.heads_per_kv(), q_cols = shard().heads.size() * d;
  const std::int64_t kv_cols = shard().kv_heads.size() * d;
  const std::int64_t first = shard().kv_heads.begin * group < shard().heads.begin ? d : 0;
  const auto squares_in = [](const float* from, std::int64_t count) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(from[i]) * from[i];
    return static_cast<float>(sum);
  };
  parallel_rows(threads, rows, q_cols + kv_cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      squares[at(2 * r)] = squares_in(q + r * ld, q_cols);
      squares[at(2 * r + 1)] = squares_in(k + r * ld + first, kv_cols - std::min(first, kv_cols));
    }
  });
  const float* all = squares.data();
  std::int64_t ranks = 1, rank_rows = rows;
  if (squares_few != nullptr) {
    Op& op = rows <= few ? *squares_few : *squares_many;
    op.run({.x = squares.data()}, {.rows = rows});
    const Matrix y = op.output();
    all = y.data, ranks = world.size(), rank_rows = y.rows / ranks;
  }
  const auto finish = [&](float* row, std::int64_t cols, const float* weight, std::int64_t r, std::int64_t i) {
    double sum = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) sum += static_cast<double>(all[(rank * rank_rows + r) * 2 + i]);
    const std::int64_t of = (i == 0 ? c.heads : c.kv_heads) * d;
    const auto scale = static_cast<float>(1 / std::sqrt(sum / static_cast<double>(of) + c.norm_eps));
    for (std::int64_t j = 0; j < cols; ++j) row[j] = row[j] * scale * weight[j];
  };
  parallel_rows(threads, rows, q_cols + kv_cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      finish(q + r * ld, q_cols, w.q_norm, r, 0);
      finish(k + r * ld, kv_cols, w.k_norm, r, 1);
    }
  });
}

// x -> attended.
void Engine::State::attend(std::int64_t block, const float* x) {
  const BlockWeights& w = model.block(block);
  const std::int64_t d = config().head_dim, heads = shard().heads.size(), kv = shard().kv_heads.size();
  const std::int64_t ld = (heads + 2 * kv) * d;
  float *q = qkv.data(), *k = q + heads * d, *v = k + kv * d;
  multiply({{w.q, w.q_bias, q, ld}, {w.k, w.k_bias, k, ld}, {w.v, w.v_bias, v, ld}}, x);
  if (config().design.qk_norm == QkNorm::whole) norm_all_heads(w, q, k, ld);
  if (attention.empty()) return;
  if (config().design.qk_norm == QkNorm::head) norm_heads(w, q, k, ld);
  const RopeTable* rope = attention.rope(block);
  CachedAttention& cached = attention.of(block);
  attention_rows.clear();
  for (const Run& run : runs) {
    const std::int64_t at = run.first * ld;
    if (rope != nullptr)
      parallel_rows(threads, run.rows, (heads + kv) * d, [&](std::int64_t begin, std::int64_t end) {
        rope->apply(run.position + begin, end - begin, heads, q + at + begin * ld, ld);
        rope->apply(run.position + begin, end - begin, kv, k + at + begin * ld, ld);
      });
    const KvCache memory = cache(block, run.sequence);
    cached.append(memory, run.position, run.rows, k + at, ld, v + at, ld);
    attention_rows.push_back(
        {memory, run.position, run.rows, q + at, attended.data() + run.first * shard().attention_width});
  }
  cached.run(threads, attention_rows, ld, shard().attention_width);
  scale_addition(attended.data(), shard().attention_width);
}

}  // namespace weft
