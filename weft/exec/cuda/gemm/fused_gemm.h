// The kernel of the CUDA executor and what it is launched with (fused_gemm.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "weft/exec/cuda/device_lane.h"
#include "weft/exec/cuda/kernel.h"
#include "weft/plan/producer.h"

namespace weft {

inline constexpr int kBlockDepth = 64;  // of x and w in one stage

struct DeviceRank {
  CUtensorMap maps[kMaxMatrices];  // of the matrices, in boxes of 128 x 64; 0: x
  CUtensorMap w;                   // boxes of half a tile's columns x 64 (nk), or 64 x 64 (kn)
  std::uint8_t* matrices[kMaxMatrices];
  std::int32_t matrix_rows[kMaxMatrices], matrix_cols[kMaxMatrices];
  std::uint8_t* segment;
  const void* bias;  // null: none
  const void* residual;
  std::uint32_t* counters;
  unsigned long long* stamps;
  const DeviceLane* lanes;
  const DeviceWork* works;
  const DeviceLane* triggers;
  const DeviceWait* waits;
  const DevicePlace* sources;
  const DevicePlace* targets;
  const DeviceSignal* signals;
  const std::int32_t* counts;                    // rows that count: of all, then for each peer; in device memory, and
  std::int32_t given_counts[kMaxCudaRanks + 1];  // as the host knows them
  std::uint32_t* fired;                          // per trigger: runs in which it has
  std::uint32_t* ended;                          // per trigger that is cut: parts that have ended in this run
  LaneTimes* times;                              // of traced runs: of lanes, then of triggers
  std::uint64_t* met;                            // when warp 1 saw that each of `waits` was
  std::int32_t pairs, num_triggers;
  bool narrow_bias, narrow_residual;  // bf16, not f32
};

struct DeviceArguments {
  DeviceRank ranks[kMaxCudaRanks];
  DeviceFailure* failure;     // on the host
  std::uint32_t* gave_up;     // on the device: some wait has
  std::uint32_t* run;         // the number of this run, and how many CTAs have ended in it: the last one counts on
  unsigned long long* links;  // until when a link is busy: per host and host, or NICs out of each host, then into each
  unsigned long long deadline_ns;
  float ns_per_byte, latency_ns;  // 0 and 0: links cost nothing
  std::int32_t num_ranks, ranks_per_host;
  std::int32_t shares_nics;       // 1: all that leaves a host shares a link, and all that enters it
  std::int32_t counts_on_device;  // 1: those in device memory count
  std::int32_t first_rank;        // that this launch runs
  std::int32_t clusters_per_rank, k_blocks;
  std::int32_t columns;  // of the residual
  Activation activation;
};

struct FusedGemm {
  Kernel<DeviceArguments> kernel;  // in clusters of 2
  int threads, shared_bytes;
};
// `finishes`: for plans with an epilogue.
FusedGemm fused_gemm_of(WeightLayout layout, bool finishes);   // sums are kept and sent as bf16
FusedGemm wide_gemm_of(WeightLayout layout, bool finishes);    // as f32
FusedGemm traced_gemm_of(WeightLayout layout, bool finishes);  // bf16; its lanes leave their times

}  // namespace weft
