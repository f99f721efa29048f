// What the multiplying warpgroups of the kernel do (fused_gemm.cu): the product of a tile, the sum of its sources and
// it, its epilogue, and its strips in shared memory.
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

// activation(sum + bias) + residual, of the sums that count, in one pass for each part. Sums 2i and 2i + 1 of a thread
// are neighbours in a row.
__device__ __forceinline__ void finish_strip(const DeviceArguments& a, const DeviceRank& rank, const DeviceLane& lane,
                                             int rows, int strip, const Consumer& me, float* d) {
  const int quad = me.thread % 32;
  const int row = me.group * 64 + me.thread / 32 * 16 + quad / 4, col = strip * kStripCols + quad % 4 * 2;
  if (rank.bias != nullptr) {
    const float* bias = rank.bias + lane.col + col;
#pragma unroll
    for (int right = 0; right < kStripCols; right += 8) {
      const float2 more = col + right < lane.cols ? *reinterpret_cast<const float2*>(bias + right) : float2{0, 0};
      float* sums = d + right / 2;
      sums[0] += more.x, sums[1] += more.y, sums[2] += more.x, sums[3] += more.y;
    }
  }
  if (a.activation == Activation::relu) {
#pragma unroll
    for (int j = 0; j < kSums; ++j) d[j] = fmaxf(d[j], 0.0f);
  } else if (a.activation != Activation::none) {
    // silu: x / (1 + exp(-x)); gelu: x / 2 * (1 + tanh(u)) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3)
    const bool silu = a.activation == Activation::silu;
    const float one = silu ? -1.0f : -1.5957691216f, three = silu ? 0.0f : -1.5957691216f * 0.044715f;
#pragma unroll
    for (int j = 0; j < kSums; ++j) d[j] = __fdividef(d[j], 1.0f + __expf(d[j] * (one + three * d[j] * d[j])));
  }
  if (rank.residual == nullptr) return;
  const DevicePlace& to = rank.targets[lane.first_target];
  const float* residual = rank.residual + static_cast<std::int64_t>(to.row + row) * a.columns + to.col + col;
#pragma unroll
  for (int j = 0; j < kSums; j += 2) {
    const int down = (j >> 1 & 1) * 8, right = (j >> 2) * 8;
    if (row + down >= rows || col + right >= lane.cols) continue;
    const float2 more = *reinterpret_cast<const float2*>(residual + down * a.columns + right);
    d[j] += more.x, d[j + 1] += more.y;
  }
}

// Tells the warp that stores of a slot that is written, or has been read. Every thread does: compute-sanitizer's
// racecheck follows mbarriers, and no barrier of a warp or of a group.
__device__ __forceinline__ void tell(GemmMemory& s, Turn<kSlots>* turn) {
  arrive(s.summed + turn->at);
  turn->next();
}

// sum = (s0 + s1) + ..., of one strip; the turn stays at the slot of the last.
__device__ __forceinline__ void fold_strip(GemmMemory& s, const Consumer& me, int sources, Turn<kSlots>* turn,
                                           float (&sum)[kSums]) {
  for (int i = 0; i < sources; ++i) {
    wait_barrier(s.loaded + turn->at, turn->parity);
    const std::uint32_t slot = shared_address(s.slots[turn->at]);
    if (i == 0)
      for_each_pair(slot, me, [&](int j, float low, float high) { sum[j] = low, sum[j + 1] = high; });
    else
      for_each_pair(slot, me, [&](int j, float low, float high) { sum[j] += low, sum[j + 1] += high; });
    if (i + 1 < sources) tell(s, turn);
  }
}

// ((s0 + s1) + ...) + the products d, finished, and written strip by strip in place of the last source. An epilogue is
// bound by instructions: one per element takes 256 cycles of a multiprocessor, so a single source has its own way.
__device__ __forceinline__ void add_to_products(const DeviceArguments& a, const DeviceRank& rank,
                                                const DeviceLane& lane, const Work& work, bool finish, GemmMemory& s,
                                                const Consumer& me, Turn<kSlots>* turn, float (&d)[128]) {
#pragma unroll
  for (int strip = 0; strip < kCudaTileCols / kStripCols; ++strip) {
    if (strip >= work.strips) continue;
    float* sums = d + strip * kSums;
    if (work.sources > 1) {
      float sum[kSums];
      fold_strip(s, me, work.sources, turn, sum);
#pragma unroll
      for (int j = 0; j < kSums; ++j) sums[j] += sum[j];
    } else {
      wait_barrier(s.loaded + turn->at, turn->parity);
      if (work.sources == 1)
        for_each_pair(shared_address(s.slots[turn->at]), me,
                      [&](int j, float low, float high) { sums[j] += low, sums[j + 1] += high; });
    }
    if (finish) finish_strip(a, rank, lane, work.rows, strip, me, sums);
    write_strip(shared_address(s.slots[turn->at]), me, sums);
    fence_proxies_shared();
    tell(s, turn);
  }
}

// The sources alone. A lane without rows comes here as one empty strip.
__device__ __forceinline__ void add_sources(const DeviceArguments& a, const DeviceRank& rank, const DeviceLane& lane,
                                            const Work& work, bool finish, GemmMemory& s, const Consumer& me,
                                            Turn<kSlots>* turn) {
  for (int strip = 0; strip < work.strips; ++strip) {
    if (work.sources == 0) {
      wait_barrier(s.loaded + turn->at, turn->parity);
    } else {
      float sum[kSums];
      fold_strip(s, me, work.sources, turn, sum);
      if (finish) finish_strip(a, rank, lane, work.rows, strip, me, sum);
      write_strip(shared_address(s.slots[turn->at]), me, sum);
      fence_proxies_shared();
    }
    tell(s, turn);
  }
}

// The compiler is told that all threads of a warp have the same: what it cannot prove uniform it keeps out of uniform
// registers, and with that the descriptors of the products (4 % at k 4096).
__device__ __forceinline__ Work same_in_warp(const Work& work) {
  return {__shfl_sync(~0u, work.rows, 0), __shfl_sync(~0u, work.strips, 0), __shfl_sync(~0u, work.sources, 0),
          __any_sync(~0u, work.multiplies) != 0};
}

// Whether a kernel has the code of epilogues: it is long, and slows down what does not take it (3 % at k 1024).
enum class Finish { none, some };

template <WeightLayout kLayout, Finish kFinish>
__device__ __forceinline__ void make_tiles(const DeviceArguments& a, GemmMemory& s, const Seat& seat) {
  const DeviceRank& rank = a.ranks[seat.rank];
  const int thread = threadIdx.x % 128, group = threadIdx.x / 128 - 1;
  const Consumer me{group, thread, group * 64 + thread / 32 * 16 + thread % 16};
  Turn<kStages> stage;
  Turn<kSlots> slot;
  std::uint32_t next = begin_load_work(rank, 2 * ::max(0, ::min(seat.slot, rank.pairs - 1)) + seat.cta);
  for (int t = seat.slot; t < rank.pairs; t += a.clusters_per_rank) {
    const DeviceWork given = end_load_work(next);
    const Work work = same_in_warp(work_of(seat, given));
    const bool finish = kFinish == Finish::some && (given.does & kFinishes) != 0;
    const DeviceLane& lane = rank.lanes[2 * t + seat.cta];
    next = begin_load_work(rank, 2 * ::min(t + a.clusters_per_rank, rank.pairs - 1) + seat.cta);
    if (work.multiplies) {
      float d[128];
      multiply_blocks<kLayout>(a, s, me, &stage, d);
      add_to_products(a, rank, lane, work, finish, s, me, &slot, d);
    } else {
      add_sources(a, rank, lane, work, finish, s, me, &slot);
    }
  }
}

}  // namespace weft
