// The kernel of the CUDA executor and what it is launched with (fused_gemm.cu).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "weft/exec/cuda/device_lane.h"
#include "weft/plan/producer.h"

namespace weft {

inline constexpr int kBlockDepth = 64;  // of x and w in one stage

struct DeviceRank {
  CUtensorMap x, w, y;  // boxes of 128 x 64, 128 x 64 (nk) or 64 x 64 (kn), and 128 x 64
  std::uint8_t* segment;
  std::uint8_t* output;  // y, in rows
  std::uint32_t* counters;
  unsigned long long* stamps;
  const DeviceLane* lanes;
  const DeviceLane* triggers;
  const DeviceWait* waits;
  const DevicePlace* sources;
  const DevicePlace* targets;
  const DeviceSignal* signals;
  std::uint32_t* fired;  // per trigger: runs in which it has
  std::int32_t pairs, num_triggers;
  std::int32_t output_rows, output_cols;
};

struct DeviceArguments {
  DeviceRank ranks[kMaxCudaRanks];
  DeviceFailure* failure;     // on the host
  std::uint32_t* gave_up;     // on the device: some wait has
  unsigned long long* links;  // per host and host: until when the link is busy
  unsigned long long deadline_ns;
  float ns_per_byte, latency_ns;  // 0 and 0: links cost nothing
  std::int32_t ranks_per_host;
  std::int32_t clusters_per_rank, k_blocks;
  std::uint32_t run;
};

struct FusedGemm {
  const void* kernel;  // takes DeviceArguments by value, in clusters of 2
  int threads, shared_bytes;
};
FusedGemm fused_gemm_of(WeightLayout layout);

}  // namespace weft
