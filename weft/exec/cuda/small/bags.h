// The kernel of embedding bags and what it is launched with (bags.cu).
#pragma once

#include <cstdint>

#include "weft/exec/cuda/kernel.h"
#include "weft/exec/cuda/small/bag_table.h"

namespace weft {

inline constexpr int kBagThreads = 256;

struct BagRank {
  std::uint8_t* segment;
  std::uint32_t* counters;
  const BagLane* lanes;
  const float* const* tables;          // one per table of the rank
  const std::int64_t* const* indices;  // and its indices,
  const std::int64_t* const* offsets;  // and where each sample's begin: one more than there are samples
  const std::int64_t* rows;            // of each table; null: indices are known to be right
  std::int32_t num_lanes;
};

// Of a launch of one rank (BagMeetings).
struct BagMeeting {
  const DeviceSignal* opens;
  const DeviceWait* arrivals;
  const std::uint32_t* totals;  // of the rank's counters
  std::int32_t num_opens, num_arrivals;
  std::uint32_t* run;  // the number of this run, and how many CTAs have ended in it: the last one counts on
  unsigned long long deadline_ns;
};

struct BagArguments {
  BagRank ranks[kMaxCudaRanks];
  BagMeeting meeting;      // of Ranks::one
  DeviceFailure* failure;  // on the host
  std::uint32_t* gave_up;  // on the device: something has failed
  std::int32_t first_rank, ctas_per_rank, dim;
  Pooling pooling;
};

// Of all ranks, or of first_rank alone, which meets the others.
enum class Ranks { all, one };
Kernel<BagArguments> bag_kernel(Ranks ranks);  // in CTAs of kBagThreads, as many for each rank

}  // namespace weft
