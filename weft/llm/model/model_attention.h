// Attention and rotary positions of every block of a model, for one rank. Blocks that see alike share one kernel,
// and blocks that turn alike one table. Caches of all blocks have one layout.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/kernel/attention/cached_attention.h"
#include "weft/kernel/attention/rope.h"
#include "weft/llm/model/config.h"
#include "weft/llm/model/shard.h"

namespace weft {

class ModelAttention {
 public:
  ModelAttention(const ModelConfig& config, const ModelShard& shard, std::int64_t positions, int threads);

  bool empty() const { return attentions_.empty(); }  // this rank has no head; of() is not called then
  CachedAttention& of(std::int64_t block) { return *attentions_[attention_of_[at(block)]]; }
  const RopeTable* rope(std::int64_t block) const;                                   // null: its heads do not turn
  std::int64_t cache_floats() const { return attentions_.front()->cache_floats(); }  // of k, and of v
  const CachedAttentionShape& shape() const { return attentions_.front()->shape(); }

 private:
  std::vector<std::unique_ptr<CachedAttention>> attentions_;  // one per window that some block has
  std::vector<std::size_t> attention_of_;                     // (blocks)
  std::vector<std::unique_ptr<RopeTable>> ropes_;             // one per rotary of the design
  std::vector<int> rope_of_;                                  // (blocks); -1: none
};

// Norms each of the heads of q, (rows, heads * head_dim) with ld, by itself.
void norm_each_head(const ModelConfig& config, const float* weight, std::int64_t rows, std::int64_t heads, float* q,
                    std::int64_t ld);

}  // namespace weft
