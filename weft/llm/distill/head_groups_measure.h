// What head grouping is decided on, measured on calibration samples by all ranks together: how differently heads
// attend, and how strongly each rank's MLP answers each group.
#pragma once

#include <vector>

#include "weft/llm/distill/activations.h"
#include "weft/llm/distill/block.h"

namespace weft {

struct MeasuredGroups {
  std::vector<int> order;      // of the units: permute_heads() takes it; empty: ranks cannot hold whole units
  double distance = 0;         // inside the groups, as found
  double distance_before = 0;  // with heads where they are
};

// Collective; the same answer on all ranks. `inputs` are hidden states before the block, of which the first `samples`
// (rounded down to whole batches of `block`) are used. A head's vector is the mean over samples of its attention
// weights at 64 queries (or all) spaced evenly.
MeasuredGroups measure_groups(World& world, RankBlock& block, const ModelConfig& config,
                              const std::vector<float>& whole, const Activations& inputs, std::int64_t samples,
                              std::int64_t batch);

}  // namespace weft
