// Are the products and their collectives right? A few elements of every part that communicates, in float64 from its
// real inputs: each rank computes its share of a sampled element, the ranks tell each other, and whoever owns the
// element compares. Shapes and owners come from plan/space.h; no plan, builder or executor has a part in it.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/study/ledger/block.h"
#include "weft/world/op.h"

namespace weft {

class SampleCheck {
 public:
  explicit SampleCheck(World& world);  // collective

  // Collective, after a run in any style but compute: the largest error relative to the largest value, of all parts.
  // `seed` moves the sample. Infinite where an element is not where it belongs.
  double error_of(const WorkloadBlock& block, std::uint64_t seed);

 private:
  struct Sample {
    std::int64_t row, col;
  };
  double error_of(const MeasuredPart& part, std::uint64_t seed);
  std::vector<double> told_by_all(const std::vector<double>& mine);

  World& world_;
  Op gather_;
  std::vector<float> room_;
};

// How far rounding may carry an f32 sum of `terms` products from the exact one, relative to the largest value.
double rounding_of(std::int64_t terms);

}  // namespace weft
