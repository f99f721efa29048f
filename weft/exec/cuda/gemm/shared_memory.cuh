// A CTA's shared memory, and how its warps take turns in it (fused_gemm.cuh).
#pragma once

#include <cstdint>

#include "weft/exec/cuda/gemm/fused_gemm.h"

namespace weft {

inline constexpr int kStages = 3, kSlots = 4;
inline constexpr int kXBytes = kCudaTileRows * kBlockDepth * 2, kWBytes = kCudaTileCols * kBlockDepth * 2;
inline constexpr int kWBlockBytes = kBlockDepth * kStripCols * 2;

struct alignas(1024) GemmMemory {  // swizzled blocks begin at multiples of 1024
  std::uint8_t stages[kStages][kXBytes + kWBytes];
  std::uint8_t slots[kSlots][kStripBytes];
  std::uint8_t copy[kStripBytes];  // of warp 3
  std::uint64_t full[kStages], empty[kStages];
  std::uint64_t loaded[kSlots], summed[kSlots], free[kSlots];
  std::uint64_t copied, copy_free;
  std::int32_t counts[kMaxCudaRanks + 1];
};
inline constexpr int kSharedBytes = sizeof(GemmMemory);

// A place in a ring of barriers: which, and the parity of its turn.
template <int kCount>
struct Turn {
  int at = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++at == kCount) at = 0, parity ^= 1;
  }
};

}  // namespace weft
