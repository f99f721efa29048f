#include "weft/reshard/build/shards.h"

#include <algorithm>

#include "weft/base/index.h"

namespace weft::resharding {

int dims_of(const ShardedTensor& tensor) { return std::max(int_size(tensor.shape), 1); }

Box shard_of(const Reshard& reshard, const ShardedTensor& tensor, const std::vector<std::int64_t>& corner, int rank) {
  const Placement& placement = reshard.placements[at(tensor.placement)];
  const auto found = std::find(placement.ranks.begin(), placement.ranks.end(), rank);
  Box box;
  box.dims = dims_of(tensor);
  if (found == placement.ranks.end()) return box;
  if (tensor.shape.empty()) return Box{{0, 1}};
  box = shard_box(tensor.shape, tensor.sharding, placement.mesh, static_cast<int>(found - placement.ranks.begin()));
  for (int d = 0; d < box.dims; ++d) {
    const std::int64_t shift = corner.empty() ? 0 : corner[at(d)];
    box.lo[at(d)] += shift;
    box.hi[at(d)] += shift;
  }
  return box;
}

}  // namespace weft::resharding
