#include "weft/llm/model/model_attention.h"

#include "weft/kernel/rows/norm.h"

namespace weft {
namespace {

// A rank's query heads in turn: whose key and value head each reads.
CachedAttentionShape attention_shape(const ModelConfig& config, const ModelShard& shard, std::int64_t block,
                                     std::int64_t positions) {
  CachedAttentionShape shape{.heads = shard.heads.size(),
                             .kv_heads = shard.kv_heads.size(),
                             .head_dim = config.head_dim,
                             .capacity = positions,
                             .window = config.design.block(block).window,
                             .scale = static_cast<float>(config.design.attention_scale),
                             .cap = static_cast<float>(config.design.attention_cap)};
  for (std::int64_t head = shard.heads.begin; head < shard.heads.end; ++head)
    shape.kv_of.push_back(static_cast<std::int32_t>(head / config.heads_per_kv() - shard.kv_heads.begin));
  return shape;
}

}  // namespace

ModelAttention::ModelAttention(const ModelConfig& config, const ModelShard& shard, std::int64_t positions,
                               int threads) {
  const Design& design = config.design;
  for (const RotaryDesign& rotary : design.rotaries)
    ropes_.push_back(
        std::make_unique<RopeTable>(positions, rotary_rates(rotary, positions), rotary.magnitude, config.head_dim));
  for (std::int64_t block = 0; block < config.blocks; ++block) {
    const int rotary = design.block(block).rotary;
    rope_of_.push_back(rotary < int_size(design.rotaries) ? rotary : -1);
    if (shard.heads.size() == 0) continue;
    std::size_t found = 0;
    while (found < attentions_.size() && attentions_[found]->shape().window != design.block(block).window) ++found;
    if (found == attentions_.size())
      attentions_.push_back(
          std::make_unique<CachedAttention>(attention_shape(config, shard, block, positions), threads));
    attention_of_.push_back(found);
  }
}

const RopeTable* ModelAttention::rope(std::int64_t block) const {
  const int rope = rope_of_[at(block)];
  return rope < 0 ? nullptr : ropes_[num(rope)].get();
}

void norm_each_head(const ModelConfig& config, const float* weight, std::int64_t rows, std::int64_t heads, float* q,
                    std::int64_t ld) {
  const std::int64_t d = config.head_dim;
  for (std::int64_t row = 0; row < rows; ++row, q += ld)
    rms_norm(heads, d, {weight, static_cast<float>(config.norm_eps)}, q, d, q, d);
}

}  // namespace weft
