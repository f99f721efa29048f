// What the multiplying warpgroups of the kernel do (fused_gemm.cuh): the product of a tile, the sum of its sources and
// it, and its epilogue.
#pragma once

#include "weft/exec/cuda/gemm/held_strips.cuh"
#include "weft/exec/cuda/gemm/wgmma.cuh"

namespace weft {

// A thread's sums of a tile.
template <Dtype kSum>
using Sums = float[kStrips * kSumsOf<kSum>];

// The products d of a tile. Beside them strips of the tile before it are written, and those of its sources read;
// `meanwhile` is done beside the last.
template <WeightLayout kLayout, Dtype kSum, typename Meanwhile>
__device__ __forceinline__ void multiply_blocks(const DeviceArguments& a, GemmMemory& s, const Consumer& me,
                                                const Work& work, Turn<kStages>* turn, Turn<kSlots>* slot, Held* held,
                                                Sums<kSum>& d, Meanwhile&& meanwhile) {
  const int in_hand = strips_in_hand<kSum>(work);
  held->strip_at = held->source_at = 0;
  for (int block = 0; block < a.k_blocks; ++block, turn->next()) {
    if (held->next < held->end && !__all_sync(~0u, is_past(me.full(turn->at), turn->parity)))
      write_held<kSum>(s, me, kStrips, held, slot);
    wait_barrier(me.full(turn->at), turn->parity);
    const std::uint64_t x = descriptor(me.x(turn->at), 16, 1024);
    const std::uint64_t w = descriptor(me.w(turn->at), kLayout == WeightLayout::kn ? kWBlockBytes : 16, 1024);
    constexpr int kWStep = kLayout == WeightLayout::kn ? 16 * 128 / 16 : 2;  // 16 deep, in units of 16 bytes
    begin_products();
#pragma unroll
    for (int k = 0; k < kBlockDepth / 16; ++k) multiply<kLayout>(d, x + k * 2, w + k * kWStep, block > 0 || k > 0);
    commit_products();
    const bool last = block + 1 == a.k_blocks;  // then nothing is left for later
    if (held->next < held->end && (last || block % kBlocksPerStrip == 0))
      write_held<kSum>(s, me, last ? kStrips : 1, held, slot);
    while (held->next == held->end && held->strip_at < in_hand &&
           (last || __all_sync(~0u, is_past(me.loaded(slot->at), slot->parity)))) {
      if (work.sources == 1)
        take_one<kSum>(s, me, held, slot);
      else
        take_several<kSum>(s, me, work.sources, held, slot);
      if (!last) break;
    }
    if (last) meanwhile();
    wait_products();
    if (me.thread < 2) arrive_at(me.empty(turn->at), me.thread);
  }
  use_products(d);
}

// Of a bias or residual: elements `at` and `at` + 1.
__device__ __forceinline__ float2 two_of(const void* values, bool narrow, std::int64_t at) {
  if (!narrow) return *reinterpret_cast<const float2*>(static_cast<const float*>(values) + at);
  const std::uint32_t q = *reinterpret_cast<const std::uint32_t*>(static_cast<const std::uint16_t*>(values) + at);
  return {low_of(q), high_of(q)};
}

// activation(sum + bias) + residual, of the sums that count, in one pass for each part.
template <Dtype kSum>
__device__ __forceinline__ void finish_strip(const DeviceArguments& a, const DeviceRank& rank, const DeviceLane& lane,
                                             int rows, int strip, const Consumer& me, float* d) {
  constexpr int kHalves = kHalvesOf<kSum>, kCols = kStripCols / kHalves, kSums = kSumsOf<kSum>;
  const int quad = me.thread % 32, cols = lane.cols / kHalves;
  const int row = me.group * 64 + me.thread / 32 * 16 + quad / 4, col = strip * kCols + quad % 4 * 2;
  if (rank.bias != nullptr) {
    const int first = lane.col / kHalves + col;
#pragma unroll
    for (int right = 0; right < kCols; right += 8) {
      const float2 more = col + right < cols ? two_of(rank.bias, rank.narrow_bias, first + right) : float2{0, 0};
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
  const std::int64_t first = static_cast<std::int64_t>(to.row + row) * a.columns + to.col / kHalves + col;
#pragma unroll
  for (int j = 0; j < kSums; j += 2) {
    const int down = (j >> 1 & 1) * 8, right = (j >> 2) * 8;
    if (row + down >= rows || col + right >= cols) continue;
    const float2 more = two_of(rank.residual, rank.narrow_residual, first + down * a.columns + right);
    d[j] += more.x, d[j + 1] += more.y;
  }
}

// sum = (s0 + s1) + ..., of one strip. The slot of the last is told of by the caller, who may write into it.
template <Dtype kSum>
__device__ __forceinline__ void fold_strip(GemmMemory& s, const Consumer& me, int sources, Turn<kSlots>* slot,
                                           float (&sum)[kSumsOf<kSum>]) {
  std::uint32_t q[kWords];
  await_strip<kSum>(s, me, *slot, q);
  for_each_two<kSum>(q, [&](int j, float low, float high) { sum[j] = low, sum[j + 1] = high; });
  for (int i = 1; i < sources; ++i) {
    tell(s, slot);
    await_strip<kSum>(s, me, *slot, q);
    for_each_two<kSum>(q, [&](int j, float low, float high) { sum[j] += low, sum[j + 1] += high; });
  }
}

// ((s0 + s1) + ...) + the products d: first those in hand. `end` is done to the sums of each strip.
template <Dtype kSum, typename End>
__device__ __forceinline__ void add_several(GemmMemory& s, const Consumer& me, const Work& work, Held* held,
                                            Turn<kSlots>* slot, Sums<kSum>& d, End&& end) {
  constexpr int kSums = kSumsOf<kSum>, kFirst = kEarly<kSum>;
#pragma unroll
  for (int j = 0; j < kFirst * kSums; ++j) d[j] += held->sum(j);
#pragma unroll
  for (int strip = 0; strip < kFirst; ++strip) end(strip);
#pragma unroll
  for (int strip = kFirst; strip < kStrips; ++strip) {
    if (strip >= work.strips) continue;
    float sum[kSums];
    fold_strip<kSum>(s, me, work.sources, slot, sum);
    tell(s, slot);
#pragma unroll
    for (int j = 0; j < kSums; ++j) d[strip * kSums + j] += sum[j];
    end(strip);
  }
#pragma unroll
  for (int j = 0; j < kFirst * kSums; ++j) d[j] = 0;  // as Held::clear: the other strips' sums had their registers
}

// The source in hand, if there is one, + the products d.
template <Dtype kSum, typename End>
__device__ __forceinline__ void add_one(const Work& work, Held* held, Sums<kSum>& d, End&& end) {
  constexpr int kSums = kSumsOf<kSum>;
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    if (work.sources == 1)
      for_each_two<kSum>(held->strip(strip), [&](int j, float low, float high) {
        d[strip * kSums + j] += low, d[strip * kSums + j + 1] += high;
      });
    end(strip);
    if constexpr (kSum == Dtype::f32) {
      // What is held of f32 are these sums as they are: if they were still of use here, each would have two registers,
      // and ptxas would wait for every block of products to move them (tools/check_sass.py).
#pragma unroll
      for (int j = 0; j < kSums; ++j) d[strip * kSums + j] = 0;
    }
  }
}

// The sources alone, strip by strip, in place of the last of them. A lane without rows comes here as one empty strip; a
// single source goes on as it came, whatever its bits mean, and no thread reads it.
template <Dtype kSum>
__device__ __forceinline__ void add_sources(const DeviceArguments& a, const DeviceRank& rank, const DeviceLane& lane,
                                            const Work& work, bool finish, GemmMemory& s, const Consumer& me,
                                            Turn<kSlots>* slot) {
  for (int strip = 0; strip < work.strips; ++strip) {
    if (work.sources == 0 || (work.sources == 1 && !finish)) {
      wait_barrier(s.loaded + slot->at, slot->parity);
    } else {
      float sum[kSumsOf<kSum>];
      std::uint32_t q[kWords];
      fold_strip<kSum>(s, me, work.sources, slot, sum);
      if (finish) finish_strip<kSum>(a, rank, lane, work.rows, strip, me, sum);
      round_strip<kSum>(sum, q);
      write_strip<kSum>(shared_address(s.slots[slot->at]), me, q);
      fence_proxies_shared();
    }
    tell(s, slot);
  }
}

__device__ __forceinline__ Work same_in_warp(const Work& work) {
  return {__shfl_sync(~0u, work.rows, 0), __shfl_sync(~0u, work.strips, 0), __shfl_sync(~0u, work.sources, 0),
          __any_sync(~0u, work.multiplies) != 0};
}

// Whether a kernel has the code of epilogues: it is long, and slows down what does not take it (3 % at k 1024).
enum class Finish { none, some };

// A lane as a warp takes it.
struct Task {
  Work work;
  bool finish;
};
template <Finish kFinish>
__device__ __forceinline__ Task task_of(const Seat& seat, const DeviceWork& given) {
  return {same_in_warp(work_of(seat, given)), kFinish == Finish::some && (given.does & kFinishes) != 0};
}

template <WeightLayout kLayout, Finish kFinish, Dtype kSum>
__device__ __forceinline__ void make_tiles(const DeviceArguments& a, GemmMemory& s, const Seat& seat) {
  const DeviceRank& rank = a.ranks[seat.rank];
  if (seat.slot >= rank.pairs) return;
  const Consumer me = this_consumer<kSum>(s);
  Turn<kStages> stage;
  Turn<kSlots> slot;
  Held held;
  Sums<kSum> d = {};
  const auto begin_load = [&](int pair) {
    return begin_load_work(rank, 2 * ::min(pair, rank.pairs - 1) + static_cast<int>(seat.cta));
  };
  Task next = task_of<kFinish>(seat, end_load_work(begin_load(seat.slot)));
  std::uint32_t after = begin_load(seat.slot + a.clusters_per_rank);
  for (int t = seat.slot; t < rank.pairs; t += a.clusters_per_rank) {
    const auto [work, finish] = next;
    const DeviceLane& lane = rank.lanes[2 * t + seat.cta];
    const auto take_next = [&] {
      next = task_of<kFinish>(seat, end_load_work(after));
      after = begin_load(t + 2 * a.clusters_per_rank);
    };
    if (work.multiplies) {
      multiply_blocks<kLayout, kSum>(a, s, me, work, &stage, &slot, &held, d, take_next);
      const auto end_strip = [&](int strip) {
        float* sums = d + strip * kSumsOf<kSum>;
        if (finish && strip < work.strips) finish_strip<kSum>(a, rank, lane, work.rows, strip, me, sums);
        round_strip<kSum>(sums, held.strip(strip));
        if constexpr (kFinish == Finish::some && kSum == Dtype::f32) hold_loads();
      };
      if (work.sources > 1)
        add_several<kSum>(s, me, work, &held, &slot, d, end_strip);
      else
        add_one<kSum>(work, &held, d, end_strip);
      held.next = 0, held.end = work.strips;
    } else {
      write_held<kSum>(s, me, kStrips, &held, &slot);
      add_sources<kSum>(a, rank, lane, work, finish, s, me, &slot);
      held.clear();
      take_next();
    }
  }
  write_held<kSum>(s, me, kStrips, &held, &slot);
}

}  // namespace weft
