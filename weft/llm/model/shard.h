// Which part of a model a rank has: query heads, the key and value heads they need, columns of the feed-forward layer,
// and rows of the head. Pure arithmetic. Any number of ranks: parts differ by one unit where they do not divide, and a
// rank may have no part at all. Products that are summed over the ranks have one width on all of them, the widest: a
// narrower rank fills up with zeros.
#pragma once

#include <cstdint>

#include "weft/llm/model/config.h"

namespace weft {

struct IndexRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

struct ModelShard {
  int rank = 0, ranks = 1;
  IndexRange heads;
  IndexRange kv_heads;               // those that the heads read; ranks share some where they outnumber them
  IndexRange mlp;                    // columns of the feed-forward layer
  IndexRange vocab;                  // rows of the head
  std::int64_t attention_width = 0;  // widest rank's heads * head_dim; at least 1
  std::int64_t mlp_width = 0;        // widest rank's columns
  std::int64_t vocab_width = 0;      // widest rank's rows of the head
};

// Throws bad_input where ranks is below 1 or rank not among them.
ModelShard shard_of(const ModelConfig& config, int rank, int ranks);

}  // namespace weft
