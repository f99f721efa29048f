// The block's weights, as they come from a checkpoint: every matrix cut by rows over the ranks, as sharded optimisers
// keep it, and moved by a reshard plan to the columns or rows that a rank multiplies with. What is in place does not
// travel.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "weft/world/op.h"

namespace weft {

class CommonClock;
class World;

// Of all matrices so far; times on the slowest rank.
struct WeightLoad {
  int matrices = 0;
  double bytes = 0, sent_bytes = 0;  // of all ranks
  double measured_us = 0, predicted_us = 0;
  double verify_ms = 0;
  std::string strategy;
};

class WeightLoader {
 public:
  // Where the ranks' k x n parts lie in the whole matrix: side by side, or one below the other.
  enum class Split { columns, rows };

  WeightLoader(World& world, CommonClock& clock) : world_(world), clock_(clock) {}

  // Collective. This rank's k x n part, in memory that lives as long as the loader; values are uniform in [-scale,
  // scale), the same for any number of ranks, and every one of them is checked.
  const float* load(std::int64_t k, std::int64_t n, Split split, float scale);
  const WeightLoad& done() const { return done_; }

 private:
  World& world_;
  CommonClock& clock_;
  std::deque<Op> ops_;
  WeightLoad done_;
};

}  // namespace weft
