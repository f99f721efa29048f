// The kernel of embedding bags and what it is launched with (bags.cu).
#pragma once

#include <cstdint>

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
const void* bag_kernel(Ranks ranks);  // takes BagArguments by value, in CTAs of kBagThreads, as many for each rank

// What bags are measured against: outputs that were kept (samples, cols of the rank), pulled by those who need them
// into rows that have the columns of all ranks side by side.
struct PullArguments {
  const float* kept[kMaxCudaRanks];
  float* outputs[kMaxCudaRanks];
  std::int32_t first_col[kMaxCudaRanks + 1];  // in an output; the last: how wide it is
  std::int32_t num_ranks, samples;            // of each output
};
void pull_bags(const PullArguments& arguments, void* queue);

void fill_random_f32(void* memory, std::int64_t count, std::uint32_t seed, void* queue);

}  // namespace weft
