// What one block of a model takes beside its products, timed on this machine for the shapes of one rank: attention over
// the prompt, rotary positions, norms, gates, residuals; and packing weights for products. Half of it are exponentials
// of single elements, which no rate of the cost model tells.
#pragma once

#include <cstdint>

#include "weft/llm/model/shard.h"

namespace weft {

struct LocalParts {
  double block_s = 0;   // beside products, for all rows of the prompt
  double weight_s = 0;  // to pack one weight, of bf16 in rows of k, for products of many rows
};

// Some ten milliseconds for a small model: the median of a few passes, on one thread.
LocalParts time_local_parts(const ModelConfig& config, const ModelShard& shard, std::int64_t rows);

}  // namespace weft
