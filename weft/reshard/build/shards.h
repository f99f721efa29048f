// Where a rank's shard of a tensor lies: the one piece of geometry that a plan's tables hold.
#pragma once

#include <vector>

#include "weft/reshard/reshard.h"

namespace weft::resharding {

// Of its boxes in a plan: a scalar is one element of a row.
int dims_of(const ShardedTensor& tensor);

// What a rank holds of a tensor whose element 0 stands at `corner` (none: 0) of the destination, in the destination's
// coordinates; empty where it has no part in it.
Box shard_of(const Reshard& reshard, const ShardedTensor& tensor, const std::vector<std::int64_t>& corner, int rank);

}  // namespace weft::resharding
