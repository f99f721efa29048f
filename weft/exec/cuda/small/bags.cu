// Embedding bags (bag_table.h). A CTA takes a lane, at most 64 samples of one table; each of its eight warps takes an
// eighth of them. A warp reads the rows of its samples as one list, eight at a time whatever the lengths of the bags,
// each thread 16 bytes of every row: so many loads are under way even where a bag is one row. Rows are added in the
// order of their indices, in f32, as on CPUs.
#include "weft/exec/cuda/give_up.cuh"
#include "weft/exec/cuda/ptx.cuh"
#include "weft/exec/cuda/small/bags.h"

namespace weft {
namespace {

constexpr int kWarps = kBagThreads / 32, kAhead = 8;

// Samples of one warp: `starts` of thread i is where the indices of the i-th begin.
struct WarpBags {
  const CudaTable& table;
  int rank, number;  // whose it is, and which of its tables
  std::int64_t starts;
  int count;  // of samples
};

__device__ __forceinline__ void store_bag(const BagArguments& a, float4* to, float4 sum, std::int64_t rows) {
  if (a.pooling == Pooling::mean && rows > 0) {
    const float n = static_cast<float>(rows);
    sum.x /= n, sum.y /= n, sum.z /= n, sum.w /= n;
  }
  *to = sum;
}

// An index beyond its table is told of, and row 0 is read instead; an offset beyond the indices, and none of them is.
__device__ __noinline__ void refuse(const BagArguments& a, int what, int rank, int table, std::int64_t number) {
  leave_failure(a.refused, a.refusal, {0, rank, what, table, 0, 0, 0, static_cast<std::uint64_t>(number)});
}

// Where the indices of a sample begin. Those of the next begin no earlier.
__device__ __forceinline__ std::int64_t start_of(const BagArguments& a, const WarpBags& bags, std::int64_t start) {
  const int thread = threadIdx.x % 32;
  const std::int64_t next = __shfl_sync(~0u, start, ::min(thread + 1, bags.count));
  if (bags.table.num_indices < 0) return start;
  const bool inside = start >= 0 && start <= bags.table.num_indices;
  if (!inside || next < start) refuse(a, kWildOffset, bags.rank, bags.number, start);
  return inside ? start : 0;
}

// Columns from `col` on, four per thread.
__device__ __forceinline__ void pool_bags(const BagArguments& a, const WarpBags& bags, std::uint8_t* to, int pitch,
                                          int col) {
  const int thread = threadIdx.x % 32;
  const bool mine = col + thread * 4 < a.dim;
  const std::int64_t begin = __shfl_sync(~0u, bags.starts, 0), end = __shfl_sync(~0u, bags.starts, bags.count);
  const float* table = bags.table.rows + col + thread * 4;
  int bag = 0;
  std::int64_t bag_begin = begin, bag_end = __shfl_sync(~0u, bags.starts, 1);
  float4 sum{};
  const auto next_bag = [&] {
    if (mine)
      store_bag(a, reinterpret_cast<float4*>(to + static_cast<std::int64_t>(bag) * pitch + (col + thread * 4) * 4), sum,
                bag_end - bag_begin);
    sum = {};
    bag_begin = bag_end;
    ++bag;
    bag_end = __shfl_sync(~0u, bags.starts, bag + 1);
  };
  for (std::int64_t base = begin; base < end; base += 32) {
    std::int64_t index = base + thread < end ? __ldcs(bags.table.indices + base + thread) : 0;
    // Rows that are not given are the largest number there is.
    if (static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(bags.table.num_rows))
      refuse(a, kWildIndex, bags.rank, bags.number, index), index = 0;
    const int row_of_thread = static_cast<int>(index);  // of fewer than 2^31, which bag_plan sees to
    const int rows = static_cast<int>(::min(end - base, std::int64_t{32}));
    for (int j = 0; j < rows; j += kAhead) {
      float4 values[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const std::int64_t row = __shfl_sync(~0u, row_of_thread, j + u);
        if (j + u < rows && mine) values[u] = __ldcs(reinterpret_cast<const float4*>(table + row * a.dim));
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        if (j + u >= rows) continue;
        while (base + j + u >= bag_end) next_bag();
        if (mine) sum.x += values[u].x, sum.y += values[u].y, sum.z += values[u].z, sum.w += values[u].w;
      }
    }
  }
  while (bag < bags.count) next_bag();
}

// By one thread; a barrier of the CTA lets the others follow. By value: what is handed over by address lies in memory.
__device__ __noinline__ void await(const BagArguments& a, DeviceWait wait, std::uint32_t run) {
  const std::uint32_t* counter = a.ranks[a.first_rank].counters + wait.counter;
  const std::uint32_t started = run * wait.total;
  const unsigned long long begin = global_ns();
  for (;;) {
    const std::uint32_t seen = load_acquire(counter);
    if (static_cast<std::int32_t>(seen - (started + wait.at)) >= 0) return;
    const unsigned long long waited = global_ns() - begin;
    if (waited > a.meeting.deadline_ns)
      return leave_failure(a.gave_up, a.failure,
                           {0, a.first_rank, 0, static_cast<std::int32_t>(wait.counter),
                            static_cast<std::int32_t>(wait.at), seen, started, waited});
    if (waited > 100000 && load_acquire(a.gave_up) != 0) return;
  }
}

// A lane writes where its rank has opened for this run. Who is seen to be open stays so.
__device__ __forceinline__ void await_open(const BagArguments& a, const BagLane& lane, std::uint32_t run, int* last) {
  if (lane.open < 0 || lane.open == *last) return;
  *last = lane.open;
  const auto counter = static_cast<std::uint32_t>(lane.open);
  if (threadIdx.x == 0) await(a, {counter, 1, a.meeting.totals[counter], 0}, run);
  __syncthreads();
}

// The first CTA waits for what others owe this rank; the last to end counts the run, and nobody reads it after that.
__device__ __forceinline__ void end_alone(const BagArguments& a, std::uint32_t run) {
  __syncthreads();
  if (blockIdx.x == 0)
    for (int i = threadIdx.x; i < a.meeting.num_arrivals; i += kBagThreads) await(a, a.meeting.arrivals[i], run);
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  if (atomicAdd(a.meeting.run + 1, 1u) + 1 != gridDim.x) return;
  a.meeting.run[1] = 0;
  atomicAdd(a.meeting.run, 1u);
}

// Of a rank that is launched alone, fewer CTAs have more registers, so that none is kept in memory: the driver allots
// that memory behind all that runs, and ranks of one process that share a GPU would wait for one another there.
template <Ranks kRanks>
__global__ void __launch_bounds__(kBagThreads, kRanks == Ranks::all ? 3 : 2)
    pool(const BagArguments __grid_constant__ a) {
  const int per = a.ctas_per_rank;
  const int number = a.first_rank + blockIdx.x / per;
  const BagRank& rank = a.ranks[number];
  const int warp = threadIdx.x / 32, thread = threadIdx.x % 32;
  const std::uint32_t run = kRanks == Ranks::one ? *a.meeting.run : 0;
  if (kRanks == Ranks::one && blockIdx.x == 0 && threadIdx.x < a.meeting.num_opens) {
    const DeviceSignal& open = a.meeting.opens[threadIdx.x];
    add_release(a.ranks[open.rank].counters + open.counter, 1);
  }
  int last_open = -1;
  for (int i = blockIdx.x % per; i < rank.num_lanes; i += per) {
    const BagLane lane = rank.lanes[i];
    if constexpr (kRanks == Ranks::one) await_open(a, lane, run, &last_open);
    const int each = (lane.rows + kWarps - 1) / kWarps;  // samples of a warp
    WarpBags bags{a.tables[rank.first_table + lane.table], number, lane.table, 0,
                  ::max(0, ::min(lane.rows - warp * each, each))};
    const std::int64_t* starts = bags.table.offsets + lane.sample + warp * each;
    bags.starts = start_of(a, bags, bags.count > 0 ? starts[::min(thread, bags.count)] : 0);
    std::uint8_t* to = a.ranks[lane.rank].segment + lane.offset + std::int64_t{warp * each} * lane.pitch;
    for (int col = 0; bags.count > 0 && col < a.dim; col += 128) pool_bags(a, bags, to, lane.pitch, col);
    if (lane.signal_rank < 0) continue;
    __syncthreads();  // what all of them stored comes before the release
    if (threadIdx.x == 0) add_release(a.ranks[lane.signal_rank].counters + lane.counter, 1);
  }
  if constexpr (kRanks == Ranks::one) end_alone(a, run);
}

}  // namespace

Kernel<BagArguments> bag_kernel(Ranks ranks) { return ranks == Ranks::all ? pool<Ranks::all> : pool<Ranks::one>; }

}  // namespace weft
