#include "weft/reshard/build/shards.h"

#include <algorithm>

namespace weft::resharding {

int dims_of(const ShardedTensor& tensor) { return std::max(static_cast<int>(tensor.shape.size()), 1); }

Box shard_of(const Reshard& reshard, const ShardedTensor& tensor, const std::vector<std::int64_t>& at, int rank) {
  const Placement& placement = reshard.placements[static_cast<std::size_t>(tensor.placement)];
  const auto found = std::find(placement.ranks.begin(), placement.ranks.end(), rank);
  Box box;
  box.dims = dims_of(tensor);
  if (found == placement.ranks.end()) return box;
  if (tensor.shape.empty()) return Box{{0, 1}};
  box = shard_box(tensor.shape, tensor.sharding, placement.mesh, static_cast<int>(found - placement.ranks.begin()));
  for (int d = 0; d < box.dims; ++d) {
    const std::int64_t shift = at.empty() ? 0 : at[static_cast<std::size_t>(d)];
    box.lo[static_cast<std::size_t>(d)] += shift;
    box.hi[static_cast<std::size_t>(d)] += shift;
  }
  return box;
}

}  // namespace weft::resharding
