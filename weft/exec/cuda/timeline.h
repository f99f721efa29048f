// What each CTA of a traced run did, tile by tile (CudaOptions::trace), as slices of the one timeline format, in the
// words of CPU ranks (exec/cpu/record.h). A process is a rank; a CTA has four rows, since its warps do four things at
// a time:
//   operands  "make RULE": from when the first block of a tile's operands was asked for until the last was. Their
//             products begin when they have come, and are made at most three blocks later. Before that "wait: RULE"
//             for rows that other ranks send
//   waits     "wait: RULE" for each counter of a tile, with its name and who raises it. Warp 1 waits ahead of the
//             products: they stop only where a wait lasts longer than they do. A wait that was met takes a look, most
//             of a microsecond
//   stores    "store RULE": from when the first strip of a tile's sum was there until all was stored and signalled. A
//             tile with a product is stored beside the next one's. Sums that a trigger makes have the rule's name
//   triggers  RULE: from when a trigger that copies or signals was found ready until it had signalled
//
// Time 0 is the first moment of the run on any rank. Neither CUDA's headers nor a GPU are needed here.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/exec/cuda/device_lane.h"

namespace weft {

class TraceText;
struct DevicePlan;
struct Plan;

struct RankTimes {
  std::vector<LaneTimes> lanes;    // then triggers
  std::vector<std::uint64_t> met;  // per wait of the rank's table; 0: it was not looked at, as it was known to be met
};
struct DeviceTimes {
  std::uint32_t run = 0;  // counted from 0, modulo 2^32
  int first_rank = 0;     // of those below
  int clusters_per_rank = 0;
  std::vector<RankTimes> ranks;
};

void add_slices(const Plan& plan, const DevicePlan& device, const DeviceTimes& times, TraceText* out);

// Of the time of all CTAs, from the first moment of the run to its last.
struct TimelineShares {
  double run_us = 0;
  double waited = 0;  // some warp of the CTA waited for a counter; beside products, most of it
  double before = 0;  // the CTA had not come to its first tile
  double after = 0;   // it had done its last
};
TimelineShares shares_of(const DevicePlan& device, const DeviceTimes& times);

}  // namespace weft
