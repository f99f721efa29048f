// One rank's block of a model in a world: forward as tensor parallelism has it (two sums over the ranks) or with the
// first of them dropped, and backward through the dropped form. x (rows, hidden) is the same on all ranks.
//   synchronised  x1 = x + b_o + SUM y_i;        out = x1 + b_d + SUM z_i, z_i fed with x1
//   dropped       x1_i = x + b_o + y_i (own);    out = x + b_o + b_d + SUM (y_i + z_i), z_i fed with x1_i
// Going back through a sum is a copy: every rank has d(out), so ranks go back side by side and meet only to add up the
// gradients of what several of them hold (norms, output biases, shared key/value heads), which keeps these equal to the
// bit.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/llm/distill/block_weights.h"
#include "weft/nn/block.h"
#include "weft/nn/rank_sum.h"
#include "weft/world/world.h"

namespace weft {

class RankBlock {
 public:
  // Collective. The rotary table, where the model has one, is made here for `sequence` positions.
  RankBlock(World& world, const ModelConfig& config, std::int64_t sequence, std::int64_t sequences, ThreadPool* pool);

  std::int64_t rows() const { return block_.shape().rows(); }
  std::int64_t values() const { return rows() * config_.hidden; }  // of x and of the output
  const ModelShard& shard() const { return shard_; }
  const BlockLayout& layout() const { return block_.layout(); }
  ThreadPool& pool() { return *pool_; }

  // Both (rows, hidden), the same bits on all ranks; `weights` is this rank's shard. `out` may be x.
  void synchronised(const float* weights, const float* x, float* out);
  void dropped(const float* weights, const float* x, float* out);  // x must stay until dropped_backward()

  // Adds up this rank's gradients (layout().size()) for d(out), then those that ranks share.
  void dropped_backward(const float* weights, const float* dout, float* gradients);

  // The sum of squares of all gradients of the block, each counted once.
  double squared_norm(const float* gradients);

  // For head grouping: this rank's y_i as left by the last dropped() or attend(), and its z fed with any x1.
  void attend(const float* weights, const float* x);
  const std::vector<float>& attended() const { return y_; }
  void feed(const float* weights, const float* x1, float* z) { block_.feed(weights, x1, z); }
  void add_output_bias(const float* weights, float* rows) const;  // b_o
  const CausalAttention& attention() const { return block_.attention(); }
  // The rows of rank `from` on all ranks.
  const float* rows_of(int from, const float* rows);

 private:
  void add_row(const float* row, float* rows) const;
  void share_gradients(float* gradients);

  ModelConfig config_;
  ModelShard shard_;
  ThreadPool* pool_;
  RotaryTable rotary_;
  TransformerBlock block_;
  RankSum rows_sum_, gradients_sum_, norm_sum_;
  std::vector<bool> first_;  // of the gradients: those that count in squared_norm() on this rank
  std::vector<float> y_, x1_, z_, shared_, zeros_;
};

}  // namespace weft
