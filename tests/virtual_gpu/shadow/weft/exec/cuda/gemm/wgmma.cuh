// Products on the tensor cores of a virtual GPU (weft/exec/cuda/gemm/wgmma.cuh). They are made when they are waited
// for, from what lies in shared memory then.
#pragma once

#include <cstdint>

#include "weft/exec/cuda/ptx.cuh"
#include "weft/plan/producer.h"

namespace weft {

constexpr std::uint64_t descriptor(std::uint32_t address, std::uint32_t leading, std::uint32_t stride) {
  return ((address & 0x3FFFF) >> 4) | (std::uint64_t{leading >> 4} << 16) | (std::uint64_t{stride >> 4} << 32);
}

inline void begin_products() {}
inline void commit_products() {}
inline void wait_products() { gpu::make_products(); }
template <int kCount>
void use_products(float (&)[kCount]) {}

// 64 x 256 or 64 x 128.
template <WeightLayout kLayout, int kCount>
void multiply(float (&d)[kCount], std::uint64_t a, std::uint64_t b, int add) {
  gpu::Thread& me = gpu::this_thread();
  me.sums = d;
  me.products.push_back({a, b, add != 0, kLayout == WeightLayout::kn, kCount});
}

}  // namespace weft
