// From a schedule to a plan: chunks become triggers that forward tile by tile, so that a chain of hosts works as a
// pipeline.
#pragma once

#include <string>
#include <vector>

#include "weft/plan/plan.h"
#include "weft/plan/producer.h"
#include "weft/reshard/schedule/schedule.h"

namespace weft {

struct ReshardOptions {
  ScheduleOptions schedule{Strategy::automatic, Choice::ours};
  std::int64_t tile_bytes = 0;  // of what a hop moves at once; 0: chosen from sizes, hops and rates
  // What a message costs its ends beside its bytes: waking up, looking, raising a counter. 20 us is what thread ranks
  // that share two cores need; over a wire add Cluster::wire_message_s.
  double message_s = 20e-6;
  double cores = 0;  // that all ranks share; 0: each has its own
};

// What a strategy takes with its choice's schedule, latency and messages included.
struct Priced {
  Strategy strategy = Strategy::broadcast;
  double seconds = 0;
};

// The schedule that build() takes: that of the strategy asked for, or, for `auto`, of the cheapest, with the prices of
// all in `why`. One that comes within 2 % of the lower bound ends the search. `prices`, where not null, gets every
// strategy that was looked at.
Schedule choose(const Reshard& reshard, const std::vector<Task>& tasks, const Network& network,
                const ReshardOptions& options = {}, std::vector<Priced>* prices = nullptr);

// Buffers: part p of transfer t is input "src<t>.<p>", of the shape of each rank's shard (empty where it has none);
// destination t is output "dst<t>". Strategy `auto` prices all of them, latency included, and says why it chose.
Plan build(const Reshard& reshard, const Network& network, const ReshardOptions& options = {});
// The same from a schedule made before.
Plan build(const Reshard& reshard, const Schedule& schedule, const Network& network,
           const ReshardOptions& options = {});

// A producer whose m x n output on each source rank is that rank's shard of the one tensor, streamed tile by tile:
// ranks of the source mesh have its steps, all others none. Only tiles that some rank gets from this one are made.
Plan build(const Producer& producer, const Reshard& reshard, const Network& network,
           const ReshardOptions& options = {});

}  // namespace weft
