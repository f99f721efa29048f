#include "weft/llm/distill/block.h"

#include <algorithm>

#include "weft/base/index.h"

namespace weft {
namespace {

RotaryTable rotary_of(const ModelConfig& config, std::int64_t sequence) {
  const RotaryDesign* rotary = config.design.rotary_of(0);
  return rotary == nullptr ? RotaryTable{} : make_rotary_table(sequence, rotary_rates(*rotary, config.max_positions));
}

constexpr BlockParam kKvParams[] = {BlockParam::k_weight, BlockParam::k_bias, BlockParam::v_weight, BlockParam::v_bias};

bool shares_kv_heads(const ModelConfig& config, int ranks) {
  std::int64_t held = 0;
  for (int rank = 0; rank < ranks; ++rank) held += shard_of(config, rank, ranks).kv_heads.size();
  return held > config.kv_heads;
}

// What all ranks hold, then, where ranks share key/value heads, those of the whole block.
std::int64_t shared_count(const ModelConfig& config, const ModelShard& shard) {
  const BlockLayout whole(block_shape(config, shard_of(config, 0, 1)));
  std::int64_t count = whole.replicated();
  if (shares_kv_heads(config, shard.ranks))
    for (const BlockParam param : kKvParams) count += whole[param].size();
  return count;
}

}  // namespace

RankBlock::RankBlock(World& world, const ModelConfig& config, std::int64_t sequence, std::int64_t sequences,
                     ThreadPool* pool)
    : config_(config),
      shard_(shard_of(config, world.rank(), world.size())),
      pool_(pool),
      rotary_(rotary_of(config, sequence)),
      block_(block_shape(config, shard_, sequence, sequences), rotary_.head_dim == 0 ? nullptr : &rotary_, pool),
      rows_sum_(world, block_.shape().rows() * config.hidden),
      gradients_sum_(world, shared_count(config, shard_)),
      norm_sum_(world, 1),
      first_(held_first(config, shard_)),
      shared_(num(shared_count(config, shard_))) {
  for (auto* buffer : {&y_, &x1_, &z_}) buffer->resize(num(values()));
}

void RankBlock::add_row(const float* row, float* rows) const {
  if (row == nullptr) return;
  share_out(*pool_, this->rows(), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < config_.hidden; ++j) rows[i * config_.hidden + j] += row[j];
  });
}

void RankBlock::add_output_bias(const float* weights, float* rows) const {
  add_row(layout().at(weights, BlockParam::o_bias), rows);
}

void RankBlock::attend(const float* weights, const float* x) { block_.attend(weights, x, y_.data()); }

void RankBlock::synchronised(const float* weights, const float* x, float* out) {
  attend(weights, x);
  const float* sum = rows_sum_.sum_of(y_.data());
  for (std::size_t i = 0; i < x1_.size(); ++i) x1_[i] = x[i] + sum[i];
  add_output_bias(weights, x1_.data());
  block_.feed(weights, x1_.data(), z_.data());
  sum = rows_sum_.sum_of(z_.data());
  for (std::size_t i = 0; i < x1_.size(); ++i) out[i] = x1_[i] + sum[i];
  add_row(layout().at(weights, BlockParam::down_bias), out);
}

void RankBlock::dropped(const float* weights, const float* x, float* out) {
  attend(weights, x);
  for (std::size_t i = 0; i < x1_.size(); ++i) x1_[i] = x[i] + y_[i];
  add_output_bias(weights, x1_.data());
  block_.feed(weights, x1_.data(), z_.data());
  for (std::size_t i = 0; i < z_.size(); ++i) z_[i] += y_[i];
  const float* sum = rows_sum_.sum_of(z_.data());
  for (std::size_t i = 0; i < x1_.size(); ++i) out[i] = x[i] + sum[i];
  add_output_bias(weights, out);
  add_row(layout().at(weights, BlockParam::down_bias), out);
}

// The output biases are added once, so rank 0 alone answers for that; b_o is in every rank's x1 as well.
void RankBlock::dropped_backward(const float* weights, const float* dout, float* gradients) {
  const RowsIn from{dout, config_.hidden};
  float *o_bias = layout().at(gradients, BlockParam::o_bias),
        *down_bias = layout().at(gradients, BlockParam::down_bias);
  block_.feed_backward(weights, dout, z_.data(), gradients);
  if (o_bias != nullptr) add_column_sums(*pool_, rows(), config_.hidden, {z_.data(), config_.hidden}, o_bias);
  if (o_bias != nullptr && shard_.rank == 0) add_column_sums(*pool_, rows(), config_.hidden, from, o_bias);
  if (down_bias != nullptr && shard_.rank == 0) add_column_sums(*pool_, rows(), config_.hidden, from, down_bias);
  for (std::size_t i = 0; i < z_.size(); ++i) z_[i] += dout[i];
  block_.attend_backward(weights, z_.data(), nullptr, gradients);
  share_gradients(gradients);
}

void RankBlock::share_gradients(float* gradients) {
  const std::int64_t replicated = layout().replicated();
  std::fill(shared_.begin(), shared_.end(), 0.0f);
  std::copy_n(gradients, replicated, shared_.begin());
  const bool with_heads = std::ssize(shared_) > replicated;
  const auto for_each_kv = [&](const auto& move) {  // (in the shard, in the whole, floats)
    std::int64_t at = replicated;
    for (const BlockParam param : kKvParams) {
      const BlockLayout::Place& place = layout()[param];
      const bool there = config_.design.qkv_bias || param == BlockParam::k_weight || param == BlockParam::v_weight;
      const std::int64_t a_head =
          there
              ? config_.head_dim * (param == BlockParam::k_weight || param == BlockParam::v_weight ? config_.hidden : 1)
              : 0;
      move(place.begin, at + shard_.kv_heads.begin * a_head, place.size());
      at += config_.kv_heads * a_head;
    }
  };
  if (with_heads)
    for_each_kv([&](std::int64_t part, std::int64_t whole, std::int64_t count) {
      std::copy_n(gradients + part, count, shared_.begin() + whole);
    });
  gradients_sum_.add_up(shared_.data());
  std::copy_n(shared_.begin(), replicated, gradients);
  if (with_heads)
    for_each_kv([&](std::int64_t part, std::int64_t whole, std::int64_t count) {
      std::copy_n(shared_.begin() + whole, count, gradients + part);
    });
}

double RankBlock::squared_norm(const float* gradients) {
  double sum = 0;
  for (std::size_t i = 0; i < first_.size(); ++i)
    if (first_[i]) sum += static_cast<double>(gradients[i]) * gradients[i];
  auto total = static_cast<float>(sum);
  norm_sum_.add_up(&total);
  return total;
}

const float* RankBlock::rows_of(int from, const float* rows) {
  if (zeros_.empty()) zeros_.resize(num(values()));
  return rows_sum_.sum_of(from == shard_.rank ? rows : zeros_.data());
}

}  // namespace weft
