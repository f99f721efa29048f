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
  std::int32_t num_lanes;
};

struct BagArguments {
  BagRank ranks[kMaxCudaRanks];
  std::int32_t num_ranks, dim;
  Pooling pooling;
};

const void* bag_kernel();  // takes BagArguments by value, in CTAs of kBagThreads, as many for each rank

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
