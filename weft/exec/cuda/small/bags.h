// The kernel of embedding bags and what it is launched with (bags.cu).
#pragma once

#include <cstdint>

#include "weft/exec/cuda/kernel.h"
#include "weft/exec/cuda/ranks/operands.h"
#include "weft/exec/cuda/small/bag_table.h"

namespace weft {

inline constexpr int kBagThreads = 256;

struct BagRank {
  std::uint8_t* segment;
  std::uint32_t* counters;
  const BagLane* lanes;
  std::int32_t num_lanes;
  std::int32_t first_table;  // of BagArguments::tables
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
  CudaTable tables[kMaxCudaTables];
  BagMeeting meeting;      // of Ranks::one
  DeviceFailure* failure;  // on the host
  std::uint32_t* gave_up;  // on the device: some wait has
  DeviceFailure* refusal;  // the same of an index or offset, which ends no wait: the run goes on without it
  std::uint32_t* refused;
  std::int32_t first_rank, ctas_per_rank, dim;
  Pooling pooling;
};

// Of all ranks, or of first_rank alone, which meets the others.
enum class Ranks { all, one };
Kernel<BagArguments> bag_kernel(Ranks ranks);  // in CTAs of kBagThreads, as many for each rank

}  // namespace weft
