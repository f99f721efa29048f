#include "weft/llm/spd/simulated_ranks.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/names.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/gemm/matmul.h"
#include "weft/kernel/rows/elementwise.h"
#include "weft/kernel/rows/epilogue.h"
#include "weft/kernel/rows/norm.h"
#include "weft/llm/model/linear_of.h"
#include "weft/llm/model/model_attention.h"

namespace weft {
namespace {

constexpr Names<BlockOrder, 4> kOrders{{{BlockOrder::sync, "sync"},
                                        {BlockOrder::dropped, "dropped"},
                                        {BlockOrder::partial_after, "partial_after"},
                                        {BlockOrder::bias_before, "bias_before"}}};

void add_table_row(const Weight& table, std::int64_t row, float* out) {
  if (is_blocked(table.dtype)) {
    std::vector<float> wide(num(table.cols));
    const auto* from = static_cast<const std::byte*>(table.data) + row * row_bytes(table.dtype, table.ld);
    dequantise(table.dtype, from, table.first, table.cols, wide.data());
    for (std::size_t i = 0; i < wide.size(); ++i) out[i] += wide[i];
    return;
  }
  for (std::int64_t i = 0; i < table.cols; ++i) {
    const std::int64_t at = row * table.ld + i;
    if (table.dtype == Dtype::f32) out[i] += static_cast<const float*>(table.data)[at];
    if (table.dtype == Dtype::bf16) out[i] += to_float(static_cast<const bf16*>(table.data)[at]);
    if (table.dtype == Dtype::f16) out[i] += to_float(static_cast<const f16*>(table.data)[at]);
  }
}

// y += x, row by row where x is a bias of one row.
void add(std::int64_t rows, std::int64_t cols, const float* x, std::int64_t ldx, float* y) {
  if (x == nullptr) return;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] += x[r * ldx + c];
}

void scale_values(double by, std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i) values[i] *= static_cast<float>(by);
}

}  // namespace

std::string_view to_string(BlockOrder order) { return name_of(kOrders, order); }

// One rank's memory: rows of x, of its part of the attention's output and of the MLP's.
struct SimulatedRanks::Rank {
  std::unique_ptr<ModelAttention> attention;  // empty where the rank has no head
  std::vector<float> k, v;                    // one cache, used by every block in turn
  std::vector<float> x, u, normed, qkv, heads, wide, activated, p, z;
};

SimulatedRanks::SimulatedRanks(const ModelSource& source, int ranks, std::int64_t rows, int threads)
    : threads_(std::make_unique<ThreadPool>(threads)), most_rows_(rows) {
  if (ranks < 1) bad_input("{} ranks; use at least 1", ranks);
  for (int i = 0; i < ranks; ++i) models_.emplace_back(source, i, ranks);
  const ModelConfig& c = config();
  if (rows < 1 || rows > c.max_positions) bad_input("windows of {} rows; use 1 to {}", rows, c.max_positions);
  if (const std::string why = why_not_droppable(c.design); !why.empty())
    bad_input("{}: synchronisations of its blocks cannot be dropped: {}", c.file, why);
  ranks_.resize(models_.size());
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const ModelShard& s = models_[i].shard();
    Rank& rank = ranks_[i];
    const auto of = [&](std::int64_t cols) { return std::vector<float>(num(rows * cols)); };
    for (auto* memory : {&rank.x, &rank.u, &rank.normed, &rank.p, &rank.z}) *memory = of(c.hidden);
    rank.qkv = of((s.heads.size() + 2 * s.kv_heads.size()) * c.head_dim);
    rank.heads = of(s.attention_width);
    rank.wide = of(2 * s.mlp_width);
    rank.activated = of(s.mlp_width);
    rank.attention = std::make_unique<ModelAttention>(c, s, rows, threads_->size());
    if (rank.attention->empty()) continue;
    rank.k.resize(num(rank.attention->cache_floats()));
    rank.v.resize(rank.k.size());
  }
  head_sums_.assign(num(c.blocks), std::vector<double>(num(c.heads * c.head_dim)));
}

SimulatedRanks::~SimulatedRanks() = default;

void SimulatedRanks::multiply(const Weight& weight, const float* bias, const float* x, std::int64_t ldx, float* y,
                              std::int64_t ldy) const {
  if (weight.empty()) return;
  matmul(*threads_, rows_, linear_of(weight, bias), x, ldx, y, ldy);
}

void SimulatedRanks::norm(const NormWeight& weight, const float* x, float* y) const {
  const std::int64_t n = config().hidden;
  const auto eps = static_cast<float>(config().norm_eps);
  if (config().design.norm == NormKind::layer)
    layer_norm(rows_, n, {weight.weight, weight.bias, eps}, x, n, y, n);
  else
    rms_norm(rows_, n, {weight.weight, eps}, x, n, y, n);
}

void SimulatedRanks::embed(std::span<const int> tokens) {
  const std::int64_t n = config().hidden;
  const Model& model = models_.front();
  std::vector<float>& x = ranks_.front().x;
  std::fill(x.begin(), x.end(), 0.0f);
  for (std::int64_t r = 0; r < rows_; ++r) {
    add_table_row(model.embedding(), tokens[at(r)], x.data() + r * n);
    scale_values(config().design.embedding_scale, n, x.data() + r * n);
    if (!model.positions().empty())
      add_table_row(model.positions(), r + config().design.learned_positions, x.data() + r * n);
  }
  for (Rank& rank : ranks_) rank.x = x;
}

// normed -> p.
void SimulatedRanks::attend(const Model& model, std::int64_t block, Rank* rank) {
  const BlockWeights& w = model.block(block);
  const ModelShard& s = model.shard();
  const std::int64_t d = config().head_dim, heads = s.heads.size(), kv = s.kv_heads.size(), ld = (heads + 2 * kv) * d;
  if (heads > 0) {
    float *q = rank->qkv.data(), *k = q + heads * d, *v = k + kv * d;
    multiply(w.q, w.q_bias, rank->normed.data(), config().hidden, q, ld);
    multiply(w.k, w.k_bias, rank->normed.data(), config().hidden, k, ld);
    multiply(w.v, w.v_bias, rank->normed.data(), config().hidden, v, ld);
    if (config().design.qk_norm == QkNorm::head) {
      norm_each_head(config(), w.q_norm, rows_, heads, q, ld);
      norm_each_head(config(), w.k_norm, rows_, kv, k, ld);
    }
    const RopeTable* rope = rank->attention->rope(block);
    if (rope != nullptr) rope->apply(0, rows_, heads, q, ld), rope->apply(0, rows_, kv, k, ld);
    const KvCache cache{rank->k.data(), rank->v.data()};
    rank->attention->of(block).append(cache, 0, rows_, k, ld, v, ld);
    const AttentionRows all{cache, 0, rows_, q, rank->heads.data()};
    rank->attention->of(block).run(*threads_, {&all, 1}, ld, s.attention_width);
    auto& sums = head_sums_[at(block)];
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = 0; c < heads * d; ++c)
        sums[at(s.heads.begin * d + c)] += rank->heads[at(r * s.attention_width + c)];
  }
  multiply(w.o, nullptr, rank->heads.data(), s.attention_width, rank->p.data(), config().hidden);
  scale_values(config().design.residual_scale, rows_ * config().hidden, rank->p.data());
}

// u -> z.
void SimulatedRanks::feed_forward(const Model& model, std::int64_t block, const float* u, Rank* rank) {
  const BlockWeights& w = model.block(block);
  const std::int64_t cols = model.shard().mlp.size(), width = model.shard().mlp_width;
  norm(w.norm2, u, rank->normed.data());
  float* wide = rank->wide.data();
  if (config().gated()) {
    multiply(w.gate, w.gate_bias, rank->normed.data(), config().hidden, wide, 2 * cols);
    multiply(w.up, w.up_bias, rank->normed.data(), config().hidden, wide + cols, 2 * cols);
    gate(rows_, cols, config().design.activation, wide, 2 * cols, rank->activated.data(), width);
  } else {
    multiply(w.up, w.up_bias, rank->normed.data(), config().hidden, rank->activated.data(), width);
    apply(rows_, cols, {.activation = config().design.activation}, rank->activated.data(), width);
  }
  multiply(w.down, nullptr, rank->activated.data(), width, rank->z.data(), config().hidden);
  scale_values(config().design.residual_scale, rows_ * config().hidden, rank->z.data());
}

void SimulatedRanks::run_block(std::int64_t block, BlockOrder order) {
  const std::int64_t n = config().hidden;
  const bool dropped = order != BlockOrder::sync;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    norm(models_[i].block(block).norm1, ranks_[i].x.data(), ranks_[i].normed.data());
    attend(models_[i], block, &ranks_[i]);
  }
  const BlockWeights& w = models_.front().block(block);  // biases of projections are whole on every rank
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    rank.u = rank.x;
    add(rows_, n, w.o_bias, 0, rank.u.data());
    for (std::size_t j = 0; j < ranks_.size(); ++j)
      if (!dropped || j == i) add(rows_, n, ranks_[j].p.data(), n, rank.u.data());
    feed_forward(models_[i], block, rank.u.data(), &rank);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (order == BlockOrder::sync) rank.x = rank.u;
    if (dropped && order != BlockOrder::bias_before) add(rows_, n, w.o_bias, 0, rank.x.data());
    if (order == BlockOrder::partial_after) add(rows_, n, rank.p.data(), n, rank.x.data());
    add(rows_, n, w.down_bias, 0, rank.x.data());
    for (const Rank& other : ranks_) {
      add(rows_, n, other.z.data(), n, rank.x.data());
      if (order == BlockOrder::dropped || order == BlockOrder::bias_before)
        add(rows_, n, other.p.data(), n, rank.x.data());
      if (order == BlockOrder::bias_before) add(rows_, n, w.o_bias, 0, rank.x.data());
    }
  }
}

WindowScore SimulatedRanks::look(std::span<const int> targets) {
  std::vector<double> largest(targets.size(), -INFINITY), sum(targets.size()), target(targets.size());
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Model& model = models_[i];
    const std::int64_t part = model.shard().vocab.size();
    if (part == 0) continue;
    norm(model.final_norm(), ranks_[i].x.data(), ranks_[i].normed.data());
    std::vector<float> logits(num(rows_ * part));
    multiply(model.head(), nullptr, ranks_[i].normed.data(), config().hidden, logits.data(), part);
    scale_values(config().design.logit_scale, rows_ * part, logits.data());
    const double cap = config().design.logit_cap;
    for (float& logit : logits)
      if (cap > 0) logit = static_cast<float>(cap * std::tanh(logit / cap));
    for (std::size_t r = 0; r < targets.size(); ++r) {
      const std::span row(logits.data() + static_cast<std::int64_t>(r) * part, num(part));
      const double top = std::max<double>(largest[r], *std::max_element(row.begin(), row.end()));
      sum[r] *= std::exp(largest[r] - top);
      for (const float logit : row) sum[r] += std::exp(static_cast<double>(logit) - top);
      largest[r] = top;
      const std::int64_t at = targets[r] - model.shard().vocab.begin;
      if (at >= 0 && at < part) target[r] = row[weft::at(at)];
    }
  }
  WindowScore score;
  for (std::size_t r = 0; r < targets.size(); ++r) score.log_probability += target[r] - largest[r] - std::log(sum[r]);
  score.tokens = std::ssize(targets);
  return score;
}

WindowScore SimulatedRanks::score(std::span<const int> window, std::span<const BlockOrder> orders) {
  if (window.size() < 2 || std::ssize(window) - 1 > most_rows_)
    bad_input("a window of {} tokens; use 2 to {}", window.size(), most_rows_ + 1);
  if (std::ssize(orders) != config().blocks)
    bad_input("{} orders for {} blocks; give one per block", orders.size(), config().blocks);
  rows_ = std::ssize(window) - 1;
  embed(window);
  for (std::int64_t block = 0; block < config().blocks; ++block) run_block(block, orders[at(block)]);
  summed_rows_ += rows_;
  return look(window.subspan(1));
}

std::vector<std::vector<float>> SimulatedRanks::take_head_means() {
  std::vector<std::vector<float>> means;
  for (auto& sums : head_sums_) {
    auto& mean = means.emplace_back();
    for (double& sum : sums) {
      mean.push_back(static_cast<float>(sum / std::max<std::int64_t>(1, summed_rows_)));
      sum = 0;
    }
  }
  summed_rows_ = 0;
  return means;
}

}  // namespace weft
