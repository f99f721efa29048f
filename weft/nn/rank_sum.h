// Sums arrays over ranks: an all-reduce of a copy. All ranks of the group end with the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/mesh/mesh.h"
#include "weft/world/op.h"
#include "weft/world/world.h"

namespace weft {

class RankSum {
 public:
  RankSum(World& world, std::int64_t count);  // over all ranks; collective
  // Over the ranks of one group; every rank of the world makes such a call, and groups may differ in size and count.
  RankSum(World& world, const Group& group, std::int64_t count);

  void add_up(float* values);                // (count), in place
  const float* sum_of(const float* values);  // the same, left where it arrived until the next call
  Op& op() { return op_; }

 private:
  std::int64_t count_, padded_;
  std::vector<float> in_;
  Op op_;
};

// All ranks of a world, as seen by this one.
Group everyone(const World& world);

}  // namespace weft
