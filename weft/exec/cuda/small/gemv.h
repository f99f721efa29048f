// The gemv kernel and what it is launched with (gemv.cu).
#pragma once

#include <cstdint>

#include "weft/exec/cuda/device_lane.h"
#include "weft/exec/cuda/kernel.h"
#include "weft/exec/cuda/small/gemv_table.h"

namespace weft {

inline constexpr int kGemvGroups = 2, kGemvThreads = 256 * kGemvGroups;  // of a CTA

struct GemvRank {
  const void* x;  // (rows, depth), or (rows, cols) where nothing is multiplied
  const void* w;  // (cols, depth)
  void* y;        // (rows, cols)
  void* inbox;    // two halves of words: two values and the number of their run
  const GemvTarget* targets;
  const std::int32_t* sources;
};

struct GemvArguments {
  GemvRank ranks[kMaxCudaRanks];
  DeviceFailure* failure;  // on the host
  std::uint32_t* gave_up;  // on the device: some wait has
  std::uint32_t* run;      // the number of this run, and how many CTAs have ended in it: the last one counts on
  unsigned long long deadline_ns;
  std::int64_t inbox_words;  // of one half
  std::int32_t first_rank;   // that this launch runs
  std::int32_t ctas_per_rank, rows, cols, depth, tiles;
  std::int32_t num_targets, num_sources;
};

struct GemvKernel {
  Kernel<GemvArguments> kernel;
  int shared_bytes;
};
GemvKernel gemv_kernel_of(const GemvPlan& plan);

}  // namespace weft
