// Kernels of pull.h. A sum has a block of 512 threads per multiprocessor, so that all are resident.
#include "weft/exec/cuda/kernel.h"
#include "weft/exec/cuda/ptx.cuh"
#include "weft/exec/cuda/pull.h"

namespace weft {
namespace {

constexpr int kThreads = 512, kMost = 8, kSlices = 512;
constexpr unsigned long long kPatienceNs = 10'000'000'000;  // then sums are wrong, which whoever looks at them sees
constexpr int kBagBlocks = 528, kBagPullThreads = 256, kFillBlocks = 1024, kFillThreads = 256;

template <typename A>
void enqueue(Kernel<A> kernel, int blocks, int threads, const A& arguments, void* queue) {
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(blocks), config.blockDim = static_cast<unsigned>(threads);
  config.stream = static_cast<cudaStream_t>(queue);
  launch(config, kernel, arguments);
}

struct Arguments {
  const uint4* partial[kMost];
  uint4* outputs[kMost];
  uint4* inboxes[kMost];
  std::uint32_t* flags[kMost];
  unsigned long long* stamps[kMost];
  unsigned long long* links;
  std::size_t chunk;  // of one rank's rows, in uint4
  int ranks;
  int to_all;
  std::uint32_t epoch;
  double ns_per_byte, latency_ns;
};

template <typename T>
struct Fill {
  T* to;
  std::int64_t count;
  std::uint32_t seed;
};

__device__ __forceinline__ std::uint32_t scrambled(std::int64_t i, std::uint32_t seed) {
  std::uint32_t h = static_cast<std::uint32_t>(i) * 2654435761u ^ static_cast<std::uint32_t>(i >> 32) ^ seed;
  h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
  return h;
}

// The sum of four bytes.
__global__ void fill_bf16(const Fill<std::uint16_t> __grid_constant__ p) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kFillThreads + threadIdx.x; i < p.count;
       i += std::int64_t{gridDim.x} * kFillThreads) {
    const std::uint32_t h = scrambled(i, p.seed);
    const float bytes = static_cast<float>((h & 255) + ((h >> 8) & 255) + ((h >> 16) & 255) + (h >> 24));
    p.to[i] = static_cast<std::uint16_t>(pack((bytes / 4.0f - 127.5f) / 37.0f, 0));
  }
}

__global__ void fill_f32(const Fill<float> __grid_constant__ p) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kFillThreads + threadIdx.x; i < p.count;
       i += std::int64_t{gridDim.x} * kFillThreads)
    p.to[i] = static_cast<float>(scrambled(i, p.seed)) / 2147483648.0f - 1.0f;
}

__device__ __forceinline__ uint4 add8(uint4 a, const uint4& b) {
  auto* x = reinterpret_cast<std::uint32_t*>(&a);
  const auto* y = reinterpret_cast<const std::uint32_t*>(&b);
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = pack(low_of(x[i]) + low_of(y[i]), high_of(x[i]) + high_of(y[i]));
  return a;
}

__global__ void __launch_bounds__(kThreads) direct_kernel(const Arguments __grid_constant__ p) {
  const int per = gridDim.x / p.ranks, rank = blockIdx.x / per, block = blockIdx.x % per;
  if (rank >= p.ranks) return;
  const std::size_t step = std::size_t{static_cast<unsigned>(per)} * kThreads;
  for (std::size_t i = block * std::size_t{kThreads} + threadIdx.x; i < p.chunk; i += step) {
    uint4 v[kMost];
#pragma unroll
    for (int q = 0; q < kMost; ++q)
      if (q < p.ranks) v[q] = __ldcs(p.partial[(rank + 1 + q) % p.ranks] + rank * p.chunk + i);
    uint4 sum = v[0];
#pragma unroll
    for (int q = 1; q < kMost; ++q)
      if (q < p.ranks) sum = add8(sum, v[q]);
    if (p.to_all == 0) p.outputs[rank][i] = sum;
    for (int q = 0; p.to_all != 0 && q < p.ranks; ++q) p.outputs[q][rank * p.chunk + i] = sum;
  }
}

__device__ void announce(const Arguments& p, int rank, int next, int flag, std::size_t bytes) {
  __threadfence_system();
  if (p.ns_per_byte > 0) {
    unsigned long long* clock = p.links + rank;
    const auto took = static_cast<unsigned long long>(bytes * p.ns_per_byte + 0.5);
    atomicMax_system(clock, global_ns());
    const unsigned long long end = atomicAdd_system(clock, took) + took;
    atomicMax_system(p.stamps[next] + flag, end + static_cast<unsigned long long>(p.latency_ns));
  }
  add_release(p.flags[next] + flag, 1);
}

// out = in + mine, eight loads of each in flight.
__device__ __forceinline__ void add_slice(uint4* out, const uint4* in, const uint4* mine, std::size_t n) {
  constexpr int kAhead = 8;
  for (std::size_t i = threadIdx.x; i < n; i += kAhead * kThreads) {
    uint4 a[kAhead], b[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (i + u * kThreads >= n) continue;
      a[u] = __ldcs(mine + i + u * kThreads);
      if (in != nullptr) b[u] = __ldcs(in + i + u * kThreads);
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (i + u * kThreads < n) out[i + u * kThreads] = in != nullptr ? add8(b[u], a[u]) : a[u];
  }
}

__global__ void __launch_bounds__(kThreads) ring_kernel(const Arguments __grid_constant__ p) {
  const int per = gridDim.x / p.ranks, rank = blockIdx.x / per, block = blockIdx.x % per, next = (rank + 1) % p.ranks;
  if (rank >= p.ranks) return;
  const std::size_t n = p.chunk / kSlices;
  for (int step = 0; step < p.ranks; ++step) {
    const int c = (rank - 1 - step + 2 * p.ranks) % p.ranks;
    for (int s = block; s < kSlices; s += per) {
      const int in_flag = (step - 1) * kSlices + s;
      if (step > 0) {
        if (threadIdx.x == 0) {
          const unsigned long long begin = global_ns();
          while ((load_acquire(p.flags[rank] + in_flag) < p.epoch ||
                  global_ns() < load_relaxed(p.stamps[rank] + in_flag)) &&
                 global_ns() - begin < kPatienceNs) {
          }
        }
        __syncthreads();
      }
      const uint4* mine = p.partial[rank] + c * p.chunk + s * n;
      const uint4* in = p.inboxes[rank] + (step - 1) * p.chunk + s * n;
      uint4* out = step + 1 < p.ranks ? p.inboxes[next] + step * p.chunk + s * n : p.outputs[rank] + s * n;
      add_slice(out, step > 0 ? in : nullptr, mine, n);
      __syncthreads();
      if (step + 1 < p.ranks && threadIdx.x == 0) announce(p, rank, next, step * kSlices + s, n * 16);
    }
  }
}

__global__ void __launch_bounds__(kBagPullThreads) pull_rows(const PullArguments __grid_constant__ p) {
  const int per = gridDim.x / p.num_ranks, rank = blockIdx.x / per;
  if (rank >= p.num_ranks) return;
  const std::int64_t wide = p.first_col[p.num_ranks] / 4, count = wide * p.samples,
                     step = std::int64_t{per} * kBagPullThreads;
  auto* to = reinterpret_cast<float4*>(p.outputs[rank]);
  constexpr int kPulls = 4;
  for (std::int64_t i = std::int64_t{blockIdx.x % per} * kBagPullThreads + threadIdx.x; i < count; i += kPulls * step) {
    float4 values[kPulls];
#pragma unroll
    for (int u = 0; u < kPulls; ++u) {
      const std::int64_t at = i + u * step, row = at / wide, col = at % wide * 4;
      if (at >= count) continue;
      int from = 0;
      while (col >= p.first_col[from + 1]) ++from;
      const std::int64_t cols = p.first_col[from + 1] - p.first_col[from];
      values[u] = __ldcs(reinterpret_cast<const float4*>(p.kept[from] + (std::int64_t{rank} * p.samples + row) * cols +
                                                         col - p.first_col[from]));
    }
#pragma unroll
    for (int u = 0; u < kPulls; ++u)
      if (i + u * step < count) to[i + u * step] = values[u];
  }
}

}  // namespace

void fill_random(DeviceMemory& memory, std::uint32_t seed, void* queue) {
  enqueue(fill_bf16, kFillBlocks, kFillThreads,
          {reinterpret_cast<std::uint16_t*>(memory.data()), memory.bytes() / 2, seed}, queue);
}

DeviceReduceScatter::DeviceReduceScatter(std::vector<const void*> partial, std::int64_t m, std::int64_t n, SumTo to)
    : partial_(std::move(partial)), m_(m), n_(n), to_(to), links_(kMost * 8), blocks_(device_facts()->multiprocessors) {
  const auto ranks = static_cast<std::int64_t>(partial_.size());
  for (std::int64_t r = 0; r < ranks; ++r) {
    outputs_.emplace_back((to == SumTo::everybody ? m : m / ranks) * n * 2);
    inboxes_.emplace_back(m / ranks * n * 2 * ranks);
    flags_.emplace_back(ranks * kSlices * 4);
    stamps_.emplace_back(ranks * kSlices * 8);
  }
}

namespace {

template <typename T>
T* pointer(const DeviceMemory& memory) {
  return reinterpret_cast<T*>(memory.data());
}

}  // namespace

void DeviceReduceScatter::direct() {
  Arguments p{};
  p.to_all = to_ == SumTo::everybody;
  p.ranks = static_cast<int>(partial_.size());
  p.chunk = static_cast<std::size_t>(m_ / p.ranks * n_ / 8);
  for (int r = 0; r < p.ranks; ++r) {
    p.partial[r] = static_cast<const uint4*>(partial_[r]);
    p.outputs[r] = pointer<uint4>(outputs_[r]);
  }
  enqueue(direct_kernel, blocks_, kThreads, p, device_queue());
}

void DeviceReduceScatter::ring(double ns_per_byte, double latency_ns) {
  Arguments p{};
  p.ranks = static_cast<int>(partial_.size());
  p.chunk = static_cast<std::size_t>(m_ / p.ranks * n_ / 8);
  p.links = pointer<unsigned long long>(links_);
  p.epoch = ++epoch_;
  p.ns_per_byte = ns_per_byte, p.latency_ns = latency_ns;
  for (int r = 0; r < p.ranks; ++r) {
    p.partial[r] = static_cast<const uint4*>(partial_[r]);
    p.outputs[r] = pointer<uint4>(outputs_[r]);
    p.inboxes[r] = pointer<uint4>(inboxes_[r]);
    p.flags[r] = pointer<std::uint32_t>(flags_[r]);
    p.stamps[r] = pointer<unsigned long long>(stamps_[r]);
  }
  enqueue(ring_kernel, blocks_, kThreads, p, device_queue());
}

void pull_bags(const PullArguments& arguments, void* queue) {
  enqueue(pull_rows, kBagBlocks, kBagPullThreads, arguments, queue);
}

void fill_random_f32(void* memory, std::int64_t count, std::uint32_t seed, void* queue) {
  enqueue(fill_f32, kFillBlocks, kFillThreads, {static_cast<float*>(memory), count, seed}, queue);
}

}  // namespace weft
