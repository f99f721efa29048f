// From a schedule to a plan: chunks become triggers that forward tile by tile, so that a chain of hosts works as a pipeline.
#pragma once

#include <string>

#include "weft/plan/plan.h"
#include "weft/plan/producer.h"
#include "weft/reshard/schedule.h"

namespace weft {

struct ReshardOptions {
  ScheduleOptions schedule{Strategy::automatic, Choice::ours};
  std::int64_t tile_bytes = 0;  // of what a hop moves at once; 0: chosen from sizes and latency
};

// Buffers: part p of transfer t is input "src<t>.<p>", of the shape of each rank's shard (empty where it has none);
// destination t is output "dst<t>". Strategy `auto` prices all of them, latency included, and says why it chose.
Plan build(const Reshard& reshard, const Network& network, const ReshardOptions& options = {});
// The same from a schedule made before.
Plan build(const Reshard& reshard, const Schedule& schedule, const Network& network,
           const ReshardOptions& options = {});

// A producer whose m x n output on each source rank is that rank's shard of the one tensor, streamed tile by tile.
Plan build(const Producer& producer, const Reshard& reshard, const Network& network,
           const ReshardOptions& options = {});

}  // namespace weft
