// Embedding bags (bag_table.h). A CTA takes a lane, at most 64 samples of one table; each of its eight warps takes an
// eighth of them. A warp reads the rows of its samples as one list, eight at a time whatever the lengths of the bags,
// each thread 16 bytes of every row: so many loads are under way even where a bag is one row. Rows are added in the
// order of their indices, in f32, as on CPUs.
#include "weft/exec/cuda/small/bags.h"
#include "weft/exec/cuda/ptx.cuh"

namespace weft {
namespace {

constexpr int kWarps = kBagThreads / 32, kAhead = 8, kPullBlocks = 528;

// Samples of one warp: `starts` of thread i is where the indices of the i-th begin.
struct WarpBags {
  const float* table;
  const std::int64_t* indices;
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

// Columns from `col` on, four per thread.
__device__ __forceinline__ void pool_bags(const BagArguments& a, const WarpBags& bags, std::uint8_t* to, int pitch,
                                          int col) {
  const int thread = threadIdx.x % 32;
  const bool mine = col + thread * 4 < a.dim;
  const std::int64_t begin = __shfl_sync(~0u, bags.starts, 0), end = __shfl_sync(~0u, bags.starts, bags.count);
  const float* table = bags.table + col + thread * 4;
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
    const int index = base + thread < end ? static_cast<int>(__ldcs(bags.indices + base + thread)) : 0;
    const int rows = static_cast<int>(::min(end - base, std::int64_t{32}));
    for (int j = 0; j < rows; j += kAhead) {
      float4 values[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        const std::int64_t row = __shfl_sync(~0u, index, j + u);  // of fewer than 2^31, which bag_plan sees to
        if (j + u < rows && mine) values[u] = __ldcs(reinterpret_cast<const float4*>(table + row * a.dim));
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        if (j + u >= rows) continue;
        while (base + j + u >= bag_end) next_bag();
        if (mine)
          sum.x += values[u].x, sum.y += values[u].y, sum.z += values[u].z, sum.w += values[u].w;
      }
    }
  }
  while (bag < bags.count) next_bag();
}

__global__ void __launch_bounds__(kBagThreads, 3) pool(const __grid_constant__ BagArguments a) {
  const int per = gridDim.x / a.num_ranks;
  const BagRank& rank = a.ranks[blockIdx.x / per];
  const int warp = threadIdx.x / 32, thread = threadIdx.x % 32;
  for (int i = blockIdx.x % per; i < rank.num_lanes; i += per) {
    const BagLane lane = rank.lanes[i];
    WarpBags bags;
    bags.table = rank.tables[lane.table], bags.indices = rank.indices[lane.table];
    const int each = (lane.rows + kWarps - 1) / kWarps;  // samples of a warp
    bags.count = ::max(0, ::min(lane.rows - warp * each, each));
    const std::int64_t* starts = rank.offsets[lane.table] + lane.sample + warp * each;
    bags.starts = bags.count > 0 ? starts[::min(thread, bags.count)] : 0;
    std::uint8_t* to = a.ranks[lane.rank].segment + lane.offset + std::int64_t{warp * each} * lane.pitch;
    for (int col = 0; bags.count > 0 && col < a.dim; col += 128) pool_bags(a, bags, to, lane.pitch, col);
    if (lane.signal_rank < 0) continue;
    __syncthreads();  // what all of them stored comes before the release
    if (threadIdx.x == 0) add_release(a.ranks[lane.signal_rank].counters + lane.counter, 1);
  }
}

__global__ void __launch_bounds__(256) pull(const __grid_constant__ PullArguments p) {
  const int per = gridDim.x / p.num_ranks, rank = blockIdx.x / per;
  if (rank >= p.num_ranks) return;
  const std::int64_t wide = p.first_col[p.num_ranks] / 4, count = wide * p.samples, step = std::int64_t{per} * 256;
  auto* to = reinterpret_cast<float4*>(p.outputs[rank]);
  constexpr int kPulls = 4;
  for (std::int64_t i = std::int64_t{blockIdx.x % per} * 256 + threadIdx.x; i < count; i += kPulls * step) {
    float4 values[kPulls];
#pragma unroll
    for (int u = 0; u < kPulls; ++u) {
      const std::int64_t at = i + u * step, row = at / wide, col = at % wide * 4;
      if (at >= count) continue;
      int from = 0;
      while (col >= p.first_col[from + 1]) ++from;
      const std::int64_t cols = p.first_col[from + 1] - p.first_col[from];
      values[u] = __ldcs(reinterpret_cast<const float4*>(
          p.kept[from] + (std::int64_t{rank} * p.samples + row) * cols + col - p.first_col[from]));
    }
#pragma unroll
    for (int u = 0; u < kPulls; ++u)
      if (i + u * step < count) to[i + u * step] = values[u];
  }
}

__global__ void fill_f32(float* to, std::int64_t count, std::uint32_t seed) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    std::uint32_t h = static_cast<std::uint32_t>(i) * 2654435761u ^ static_cast<std::uint32_t>(i >> 32) ^ seed;
    h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
    to[i] = static_cast<float>(h) / 2147483648.0f - 1.0f;
  }
}

}  // namespace

const void* bag_kernel() { return reinterpret_cast<const void*>(pool); }

void pull_bags(const PullArguments& arguments, void* queue) {
  pull<<<kPullBlocks, 256, 0, static_cast<cudaStream_t>(queue)>>>(arguments);
}

void fill_random_f32(void* memory, std::int64_t count, std::uint32_t seed, void* queue) {
  fill_f32<<<1024, 256, 0, static_cast<cudaStream_t>(queue)>>>(static_cast<float*>(memory), count, seed);
}

}  // namespace weft
