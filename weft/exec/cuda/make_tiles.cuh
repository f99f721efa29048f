// What the multiplying warpgroups of the kernel do (fused_gemm.cu): the product of a tile, the sum of its sources and it,
// its epilogue, and its strips in shared memory.
#pragma once

#include "weft/exec/cuda/shared_memory.cuh"
#include "weft/exec/cuda/strips.cuh"
#include "weft/exec/cuda/wgmma.cuh"

namespace weft {

// A thread's part of a tile: the group, and which row it hands to ldmatrix and stmatrix.
struct Consumer {
  int group, thread, row;
};

template <WeightLayout kLayout>
__device__ __forceinline__ void multiply_blocks(const DeviceArguments& a, GemmMemory& s, const Consumer& me,
                                                Turn<kStages>* turn, float (&d)[128]) {
  for (int block = 0; block < a.k_blocks; ++block, turn->next()) {
    wait_barrier(s.full + turn->at, turn->parity);
    const std::uint32_t stage = shared_address(s.stages[turn->at]);
    const std::uint64_t x = descriptor(stage + me.group * (kXBytes / 2), 16, 1024);
    const std::uint64_t w = descriptor(stage + kXBytes, kLayout == WeightLayout::kn ? kWBlockBytes : 16, 1024);
    constexpr int kWStep = kLayout == WeightLayout::kn ? 16 * 128 / 16 : 2;  // 16 deep, in units of 16 bytes
    begin_products();
#pragma unroll
    for (int k = 0; k < kBlockDepth / 16; ++k) multiply<kLayout>(d, x + k * 2, w + k * kWStep, block > 0 || k > 0);
    commit_products();
    wait_products();
    if (me.thread < 2) arrive_at(s.empty + turn->at, me.thread);
  }
#pragma unroll
  for (int i = 0; i < 128; ++i) asm volatile("" : "+f"(d[i])::"memory");  // not read before the products are there
}

inline constexpr int kMatrices = kStripCols / 16;  // groups of four that a warp has of a strip
inline constexpr int kSums = kStripCols / 2;       // sums that a thread has of a strip

template <typename Add>
__device__ __forceinline__ void for_each_pair(std::uint32_t slot, const Consumer& me, Add&& add) {
  const int half = me.thread % 32 >> 4;
  std::uint32_t q[kMatrices][4];
#pragma unroll
  for (int j = 0; j < kMatrices; ++j) load_matrices(slot + swizzled(me.row, j * 2 + half), q[j]);
#pragma unroll
  for (int j = 0; j < kMatrices * 4; ++j) add(2 * j, low_of(q[j / 4][j % 4]), high_of(q[j / 4][j % 4]));
}

__device__ __forceinline__ void write_strip(std::uint32_t slot, const Consumer& me, const float* d) {
  const int half = me.thread % 32 >> 4;
#pragma unroll
  for (int j = 0; j < kMatrices; ++j) store_matrices(slot + swizzled(me.row, j * 2 + half), d + j * 8);
}

__device__ __forceinline__ float activated(Activation activation, float v) {
  if (activation == Activation::none) return v;
  if (activation == Activation::relu) return fmaxf(v, 0.0f);
  // gelu: x / 2 * (1 + tanh(u)) = x / (1 + exp(-2 u))
  const float z = activation == Activation::silu ? v : 1.5957691216f * (v + 0.044715f * v * v * v);
  return v / (1.0f + __expf(-z));
}

// activation(sum + bias) + residual, of the sums that count. Sums 2i and 2i + 1 of a thread are neighbours in a row.
__device__ __forceinline__ void finish_strip(const DeviceArguments& a, const DeviceRank& rank, const DeviceLane& lane,
                                             int rows, int strip, const Consumer& me, float* d) {
  const int quad = me.thread % 32;
  const int row = me.group * 64 + me.thread / 32 * 16 + quad / 4, col = strip * kStripCols + quad % 4 * 2;
  const DevicePlace& to = rank.targets[lane.first_target];
  const float* bias = rank.bias == nullptr ? nullptr : rank.bias + lane.col + col;
  const float* residual = rank.residual == nullptr
                              ? nullptr
                              : rank.residual + static_cast<std::int64_t>(to.row + row) * a.columns + to.col + col;
#pragma unroll
  for (int j = 0; j < kSums; j += 2) {
    const int down = (j >> 1 & 1) * 8, right = (j >> 2) * 8;
    if (row + down >= rows || col + right >= lane.cols) continue;
    if (bias != nullptr) d[j] += bias[right], d[j + 1] += bias[right + 1];
    d[j] = activated(a.activation, d[j]), d[j + 1] = activated(a.activation, d[j + 1]);
    if (residual == nullptr) continue;
    const float2 more = *reinterpret_cast<const float2*>(residual + down * a.columns + right);
    d[j] += more.x, d[j + 1] += more.y;
  }
}

// (((s0 + s1) + ...) + tile), strip by strip, finished, and written in place of the last source. A tile of one source
// at most has all its strips in slots at once: they are told of together. An epilogue is bound by instructions: one per
// element takes 256 cycles of a multiprocessor.
__device__ __forceinline__ void add_sources(const DeviceArguments& a, const DeviceRank& rank, const DeviceLane& lane,
                                            const Work& work, GemmMemory& s, const Consumer& me, Turn<kSlots>* turn,
                                            float (&d)[128]) {
  const auto tell = [&](Turn<kSlots>* of, int strips) {
    fence_proxies_shared();
    group_barrier(1 + me.group, 128);
    for (int i = 0; i < strips; ++i, of->next())
      if (me.thread == 0) arrive(s.summed + of->at);
  };
  Turn<kSlots> first = *turn;
#pragma unroll
  for (int strip = 0; strip < kCudaTileCols / kStripCols; ++strip) {
    if (strip >= work.strips) break;
    float* sums = d + strip * kSums;
    if (work.sources > 1) {
      float sum[kSums];
      for (int i = 0; i < work.sources; ++i) {
        wait_barrier(s.loaded + turn->at, turn->parity);
        const std::uint32_t slot = shared_address(s.slots[turn->at]);
        if (i == 0)
          for_each_pair(slot, me, [&](int j, float low, float high) { sum[j] = low, sum[j + 1] = high; });
        else
          for_each_pair(slot, me, [&](int j, float low, float high) { sum[j] += low, sum[j + 1] += high; });
        if (i + 1 < work.sources) tell(turn, 1);
      }
#pragma unroll
      for (int j = 0; j < kSums; ++j) sums[j] = lane.product != 0 ? sum[j] + sums[j] : sum[j];
    } else {
      wait_barrier(s.loaded + turn->at, turn->parity);
      const std::uint32_t slot = shared_address(s.slots[turn->at]);
      if (work.sources == 1 && lane.product != 0)
        for_each_pair(slot, me, [&](int j, float low, float high) { sums[j] += low, sums[j + 1] += high; });
      else if (work.sources == 1)
        for_each_pair(slot, me, [&](int j, float low, float high) { sums[j] = low, sums[j + 1] = high; });
    }
    if (lane.finish != 0) finish_strip(a, rank, lane, work.rows, strip, me, sums);
    write_strip(shared_address(s.slots[turn->at]), me, sums);
    if (work.sources > 1)
      tell(turn, 1);
    else
      turn->next();
  }
  if (work.sources <= 1) tell(&first, work.strips);
}

template <WeightLayout kLayout>
__device__ __forceinline__ void make_tiles(const DeviceArguments& a, GemmMemory& s, const Seat& seat) {
  const DeviceRank& rank = a.ranks[seat.rank];
  const int thread = threadIdx.x % 128, group = threadIdx.x / 128 - 1;
  const Consumer me{group, thread, group * 64 + thread / 32 * 16 + thread % 16};
  Turn<kStages> stage;
  Turn<kSlots> slot;
  float d[128];
  for (int t = seat.slot; t < rank.pairs; t += a.clusters_per_rank) {
    const DeviceLane& lane = rank.lanes[2 * t + seat.cta];
    const Work work = work_of(rank, lane);
    if (multiplies(rank, t)) multiply_blocks<kLayout>(a, s, me, &stage, d);
    if (work.strips > 0) add_sources(a, rank, lane, work, s, me, &slot, d);
  }
}

}  // namespace weft
