// A product of up to 16 rows with w (n, k), and its sum over the ranks by one_shot, in one kernel (gemv_table.h). It is
// bound by reading w once; all else must fit beside that.
//
// A CTA has two groups of eight warps, each of which takes every n-th tile of its rank: 16 columns of the product, that
// is 16 rows of w. The eight warps share the depth; each loads 128 deep at a time, one such block ahead, straight into
// registers, as operands of mma (m16n8k16: rows of w, by 8 rows of x). Both operands take k in the same order, 8
// values in a row per thread, so no shuffle is needed. Then the group adds up its warps' parts, sends them to all
// inboxes, and adds what has come for the tile before: that has had the time of one tile to travel.
//
// x stands in shared memory. With programmatic dependent launch the first block of w is loaded while the kernel before
// still runs; x, the number of the run and inboxes are touched after griddepcontrol.wait only.
#include "weft/exec/cuda/give_up.cuh"
#include "weft/exec/cuda/ptx.cuh"
#include "weft/exec/cuda/small/gemv.h"

namespace weft {
namespace {

constexpr int kWarps = 8, kAhead = 4;        // blocks of 32 deep that a warp loads at once
constexpr int kTileWords = kGemvCols / 2;    // of one row
constexpr int kChunk = kAhead * kGemvDepth;  // 128 deep
constexpr int kXPad = 64;                    // bytes: rows of x begin in different banks

enum class Make { product, copy };
enum class Share { kept, summed };

struct GroupMemory {
  float parts[2][kWarps][kGemvCols * kGemvMaxRows];  // of two tiles in turn
  GemvTarget targets[3][kMaxCudaRanks];              // of three: see stage_places
  std::int32_t sources[3][kGemvMaxRows * kMaxCudaRanks];
};

// Two values and their run, in one scalar of 8 bytes: it is seen whole or not at all. Of a vector nobody promises that.
__device__ __forceinline__ void store_word(std::uint64_t* to, std::uint32_t values, std::uint32_t run) {
  store_relaxed(reinterpret_cast<unsigned long long*>(to), std::uint64_t{run} << 32 | values);
}
__device__ __forceinline__ uint2 load_word(const std::uint64_t* from) {
  const std::uint64_t v = load_relaxed(reinterpret_cast<const unsigned long long*>(from));
  return {static_cast<std::uint32_t>(v), static_cast<std::uint32_t>(v >> 32)};
}

struct Awaited {
  int rank, tile, source;
  std::uint32_t run;  // as words have it: from 1 on
};

__device__ __noinline__ void give_up_word(const GemvArguments& a, const Awaited& what, unsigned long long waited) {
  leave_failure(a.gave_up, a.failure, {0, what.rank, 0, what.tile, what.source, 0, what.run - 1, waited});
}

// A word that has not come at the first look.
__device__ __noinline__ uint2 await_word(const GemvArguments& a, const std::uint64_t* from, const Awaited& what) {
  const unsigned long long begin = global_ns();
  for (;;) {
    const uint2 word = load_word(from);
    if (word.y == what.run) return word;
    const unsigned long long waited = global_ns() - begin;
    if (waited > a.deadline_ns) {
      give_up_word(a, what, waited);
      return word;
    }
    if (waited > 100000 && load_acquire(a.gave_up) != 0) return word;
  }
}

// A group's part of the work.
struct GemvSeat {
  int rank, first, step;  // tiles first, first + step, ...
  int group, thread, warp, lane;
  std::uint32_t run;  // from 1 on
};

__device__ __forceinline__ void sync_group(const GemvSeat& me) { sync_threads(1 + me.group, 256); }

// Where a tile goes and what its sum is made of, for the `turn`-th tile of the group. Three take turns: the places of
// tile t are read until t + 1 has been sent, and there is a barrier of the group before t + 3 comes.
__device__ __forceinline__ void stage_places(const GemvArguments& a, GroupMemory& s, const GemvSeat& me, int tile,
                                             int turn) {
  const GemvRank& rank = a.ranks[me.rank];
  const int each = a.rows * a.num_sources;
  if (me.thread < a.num_targets) s.targets[turn % 3][me.thread] = rank.targets[tile * a.num_targets + me.thread];
  if (me.thread < each) s.sources[turn % 3][me.thread] = rank.sources[tile * each + me.thread];
}

__device__ __forceinline__ void send_words(const GemvArguments& a, const GroupMemory& s, const GemvSeat& me, int turn,
                                           std::uint32_t values) {
  for (int i = 0; i < a.num_targets; ++i) {
    const GemvTarget to = s.targets[turn % 3][i];
    std::uint64_t* inbox = static_cast<std::uint64_t*>(a.ranks[to.rank].inbox) + (me.run & 1) * a.inbox_words;
    store_word(inbox + to.element / 2 + me.thread, values, me.run);
  }
}

// Of the threads that have a word each: the sum of a tile, in the order of the plan.
__device__ __forceinline__ void add_words(const GemvArguments& a, const GroupMemory& s, const GemvSeat& me, int tile,
                                          int turn) {
  if (me.thread >= a.rows * kTileWords) return;
  const int row = me.thread / kTileWords, col = me.thread % kTileWords;
  const std::int32_t* sources = s.sources[turn % 3] + row * a.num_sources;
  const auto* inbox = static_cast<const std::uint64_t*>(a.ranks[me.rank].inbox) + (me.run & 1) * a.inbox_words + col;
  uint2 words[kMaxCudaRanks];
#pragma unroll
  for (int j = 0; j < kMaxCudaRanks; ++j)
    if (j < a.num_sources) words[j] = load_word(inbox + sources[j] / 2);
  float low = 0, high = 0;
#pragma unroll
  for (int j = 0; j < kMaxCudaRanks; ++j) {
    if (j >= a.num_sources) continue;
    if (words[j].y != me.run)
      words[j] = await_word(a, inbox + sources[j] / 2, {me.rank, tile, row * a.num_sources + j, me.run});
    low = j == 0 ? low_of(words[j].x) : low + low_of(words[j].x);
    high = j == 0 ? high_of(words[j].x) : high + high_of(words[j].x);
  }
  auto* y = static_cast<std::uint32_t*>(a.ranks[me.rank].y);
  y[(row * a.cols + tile * kGemvCols) / 2 + col] = pack(low, high);
}

template <Share kShare>
__device__ __forceinline__ void hand_over(const GemvArguments& a, const GroupMemory& s, const GemvSeat& me, int tile,
                                          int turn, std::uint32_t values) {
  if (me.thread >= a.rows * kTileWords) return;
  const int row = me.thread / kTileWords, col = me.thread % kTileWords;
  if constexpr (kShare == Share::kept)
    static_cast<std::uint32_t*>(a.ranks[me.rank].y)[(row * a.cols + tile * kGemvCols) / 2 + col] = values;
  else
    send_words(a, s, me, turn, values);
}

// The sums of a tile that one warp has, into shared memory; then two of them per thread, of all warps.
template <int kHalves>
__device__ __forceinline__ std::uint32_t add_parts(const GemvArguments& a, GroupMemory& s, const GemvSeat& me, int turn,
                                                   float (&sums)[kHalves][4]) {
  float* mine = s.parts[turn % 2][me.warp];
  const int col = me.lane / 4, row = me.lane % 4 * 2;
#pragma unroll
  for (int h = 0; h < kHalves; ++h)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      mine[(h * 8 + row + i % 2) * kGemvCols + col + i / 2 * 8] = sums[h][i];
      sums[h][i] = 0;
    }
  sync_group(me);
  if (me.thread >= a.rows * kTileWords) return 0;
  float low = 0, high = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const float2 part = *reinterpret_cast<const float2*>(s.parts[turn % 2][w] + 2 * me.thread);
    low += part.x, high += part.y;
  }
  return pack(low, high);
}

// Blocks of w for one warp: which tile and how deep the i-th is.
struct Blocks {
  int per_tile, total;
};

template <int kHalves>
struct Operands {
  uint4 w[kAhead][2];  // rows g and g + 8 of a tile, 8 values of each per thread

  __device__ __forceinline__ void load(const GemvArguments& a, const GemvSeat& me, const Blocks& blocks, int i) {
    const int tile = me.first + i / blocks.per_tile * me.step;
    const int depth = (i % blocks.per_tile * kWarps + me.warp) * kChunk;
    const auto* from = static_cast<const std::uint16_t*>(a.ranks[me.rank].w) +
                       static_cast<std::int64_t>(tile * kGemvCols + me.lane / 4) * a.depth + depth + me.lane % 4 * 8;
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const bool inside = depth + j * kGemvDepth < a.depth;
      w[j][0] = inside ? load_once(from + j * kGemvDepth) : uint4{};
      w[j][1] = inside ? load_once(from + 8 * static_cast<std::int64_t>(a.depth) + j * kGemvDepth) : uint4{};
    }
  }

  __device__ __forceinline__ void multiply(const GemvArguments& a, const GemvSeat& me, const Blocks& blocks, int i,
                                           const std::uint8_t* x, float (&sums)[kHalves][4]) const {
    const int depth = (i % blocks.per_tile * kWarps + me.warp) * kChunk;
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (depth + j * kGemvDepth >= a.depth) continue;
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
        const int row = ::min(h * 8 + me.lane / 4, a.rows - 1);  // beyond the last: made, and not kept
        const int at = row * (a.depth * 2 + kXPad) + (depth + j * kGemvDepth + me.lane % 4 * 8) * 2;
        const uint4 v = *reinterpret_cast<const uint4*>(x + at);
        multiply_add(sums[h], w[j][0].x, w[j][1].x, w[j][0].y, w[j][1].y, v.x, v.y);
        multiply_add(sums[h], w[j][0].z, w[j][1].z, w[j][0].w, w[j][1].w, v.z, v.w);
      }
    }
  }
};

__device__ __forceinline__ void load_x(const GemvArguments& a, const GemvSeat& me, std::uint8_t* x) {
  const int parts = a.depth / 8;  // of 16 bytes
  for (int i = threadIdx.x; i < a.rows * parts; i += kGemvThreads)
    *reinterpret_cast<uint4*>(x + i / parts * (a.depth * 2 + kXPad) + i % parts * 16) =
        static_cast<const uint4*>(a.ranks[me.rank].x)[i];
}

// What follows the parts of a tile: it is sent, and the tile before is added up.
template <Share kShare>
__device__ __forceinline__ void end_tile(const GemvArguments& a, const GroupMemory& s, const GemvSeat& me, int turn,
                                         std::uint32_t values) {
  const int tile = me.first + turn * me.step;
  hand_over<kShare>(a, s, me, tile, turn, values);
  if (kShare == Share::summed && turn > 0) add_words(a, s, me, tile - me.step, turn - 1);
}

template <int kHalves, Share kShare>
__device__ __forceinline__ void make_products(const GemvArguments& a, GroupMemory& s, GemvSeat& me, std::uint8_t* x,
                                              int turns) {
  const int per_tile = (a.depth + kWarps * kChunk - 1) / (kWarps * kChunk);
  const Blocks blocks{per_tile, turns * per_tile};
  Operands<kHalves> even, odd;
  if (blocks.total > 0) even.load(a, me, blocks, 0);
  await_launch_before();
  me.run = *reinterpret_cast<volatile std::uint32_t*>(a.run) + 1;
  load_x(a, me, x);
  __syncthreads();
  float sums[kHalves][4] = {};
  const auto step = [&](int i, const Operands<kHalves>& now, Operands<kHalves>* next) {
    const int turn = i / per_tile;
    if (i + 1 < blocks.total) next->load(a, me, blocks, i + 1);
    if (kShare == Share::summed && i % per_tile == 0) stage_places(a, s, me, me.first + turn * me.step, turn);
    now.multiply(a, me, blocks, i, x, sums);
    if (i % per_tile == per_tile - 1) end_tile<kShare>(a, s, me, turn, add_parts<kHalves>(a, s, me, turn, sums));
  };
  for (int i = 0; i < blocks.total; i += 2) {  // no copy from one to the other: it would wait for what is loaded
    step(i, even, &odd);
    if (i + 1 < blocks.total) step(i + 1, odd, &even);
  }
}

template <Share kShare>
__device__ __forceinline__ void copy_rows(const GemvArguments& a, GroupMemory& s, GemvSeat& me, int turns) {
  await_launch_before();
  me.run = *reinterpret_cast<volatile std::uint32_t*>(a.run) + 1;
  const int row = me.thread / kTileWords, col = me.thread % kTileWords;
  for (int turn = 0; turn < turns; ++turn) {
    const int tile = me.first + turn * me.step;
    if (kShare == Share::summed) stage_places(a, s, me, tile, turn);
    sync_group(me);
    std::uint32_t values = 0;
    if (row < a.rows)
      values = static_cast<const std::uint32_t*>(a.ranks[me.rank].x)[(row * a.cols + tile * kGemvCols) / 2 + col];
    end_tile<kShare>(a, s, me, turn, values);
  }
}

template <int kHalves, Make kMake, Share kShare>
__global__ void __launch_bounds__(kGemvThreads, 1) gemv(const GemvArguments __grid_constant__ a) {
  std::uint8_t* x = dynamic_memory<16>();
  auto& groups = static_memory<GroupMemory[kGemvGroups]>();
  GemvSeat me{};
  me.group = threadIdx.x / 256, me.thread = threadIdx.x % 256, me.warp = me.thread / 32, me.lane = threadIdx.x % 32;
  me.rank = a.first_rank + blockIdx.x / a.ctas_per_rank;
  me.first = blockIdx.x % a.ctas_per_rank * kGemvGroups + me.group, me.step = a.ctas_per_rank * kGemvGroups;
  const int turns = me.first < a.tiles ? (a.tiles - me.first + me.step - 1) / me.step : 0;
  GroupMemory& s = groups[me.group];
  if constexpr (kMake == Make::product)
    make_products<kHalves, kShare>(a, s, me, x, turns);
  else
    copy_rows<kShare>(a, s, me, turns);
  let_next_begin();
  if (kShare == Share::summed && turns > 0) add_words(a, s, me, me.first + (turns - 1) * me.step, turns - 1);
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(a.run + 1, 1u) + 1 != gridDim.x) return;
  a.run[1] = 0;
  atomicAdd(a.run, 1u);
}

template <int kHalves>
Kernel<GemvArguments> kernel_for(const GemvPlan& plan) {
  if (!plan.multiplies()) return gemv<kHalves, Make::copy, Share::summed>;
  return plan.keeps() ? gemv<kHalves, Make::product, Share::kept> : gemv<kHalves, Make::product, Share::summed>;
}

}  // namespace

GemvKernel gemv_kernel_of(const GemvPlan& plan) {
  const int shared = plan.multiplies() ? plan.rows * (plan.depth * 2 + kXPad) : 0;
  return {plan.rows > 8 ? kernel_for<2>(plan) : kernel_for<1>(plan), shared};
}

}  // namespace weft
