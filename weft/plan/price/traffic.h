// What a run of a plan moves, counted from the plan alone: executors count the same while they run, and tests
// hold one against the other. Counted action by action, never tile by tile.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/program.h"

namespace weft {

// Values travel in the dtype of the buffer they go to. Where a trigger copies from a narrower one they travel as they
// are, and are widened where they land: that loses nothing.
constexpr Dtype travels_as(Dtype source, Dtype target) {
  return source == Dtype::bf16 && target == Dtype::f32 ? source : target;
}
// Bytes of a box of a buffer, or of one on its way; of int8 with the scales of its blocks.
std::int64_t bytes_of(const Box& box, Dtype dtype);
// Bytes that go from an action to a target on another rank.
std::int64_t travel_bytes(const Plan& plan, const Program& program, const Action& action, const Piece& target);

// Of one rank, as the one that stores and signals; or summed over all.
struct Traffic {
  std::int64_t bytes_to_peers = 0;    // stored into other ranks' buffers, as they travel
  std::int64_t bytes_kept = 0;        // stored into its own buffers
  std::int64_t signals_to_peers = 0;  // raises of other ranks' counters, one a lane
  std::int64_t local_signals = 0;     // raises of its own counters

  Traffic& operator+=(const Traffic& other);
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

struct PlanTraffic {
  std::vector<Traffic> ranks;
  Traffic total;
};

// Bytes that one host's ranks store into those of other hosts, and those that others store here.
struct HostTraffic {
  std::int64_t bytes_out = 0, bytes_in = 0;
  friend bool operator==(const HostTraffic&, const HostTraffic&) = default;
};

Traffic traffic(const Plan& plan, const Program& program);                    // of the program's rank
PlanTraffic traffic(const Plan& plan);                                        // of every rank, at full run-time counts
std::vector<HostTraffic> host_traffic(const Plan& plan, int ranks_per_host);  // ranks fill hosts in blocks

}  // namespace weft
