// The instructions of weft/exec/cuda/ptx.cuh on a virtual GPU, and what CUDA C++ has beside them: kernels that include
// that file are given this one (tests/virtual_gpu/CMakeLists.txt).
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "tests/virtual_gpu/grid.h"
#include "tests/virtual_gpu/tensor_map.h"

// Words of CUDA C++.
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__ [[gnu::noinline]]
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__ &

// Grids have one dimension.
template <unsigned (*kValue)()>
struct VirtualIndex {
  struct {
    operator unsigned() const { return kValue(); }
  } x;
};
inline unsigned thread_index() { return virtual_gpu::this_thread().index; }
inline unsigned block_index() { return virtual_gpu::this_thread().cta->index; }
inline unsigned grid_size() { return static_cast<unsigned>(virtual_gpu::this_thread().cta->launch->ctas_wanted); }
inline constexpr VirtualIndex<thread_index> threadIdx{};
inline constexpr VirtualIndex<block_index> blockIdx{};
inline constexpr VirtualIndex<grid_size> gridDim{};

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct uint2 {
  unsigned x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};

template <typename T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
T max(T a, T b) {
  return a < b ? b : a;
}
inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
inline float __expf(float v) { return std::exp(v); }
inline float __fdividef(float a, float b) { return a / b; }
inline int __ffs(unsigned v) { return v == 0 ? 0 : std::countr_zero(v) + 1; }

template <typename T>
T __ldg(const T* p) {
  return *p;
}
template <typename T>
T __ldcs(const T* p) {
  return *p;
}
inline void __nanosleep(unsigned) { virtual_gpu::grid().fibers.look_again(); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }

inline unsigned atomicAdd(unsigned* p, unsigned v) { return std::atomic_ref(*p).fetch_add(v); }
inline unsigned atomicExch(unsigned* p, unsigned v) { return std::atomic_ref(*p).exchange(v); }
inline unsigned long long atomicAdd_system(unsigned long long* p, unsigned long long v) {
  return std::atomic_ref(*p).fetch_add(v);
}
inline unsigned long long atomicMax_system(unsigned long long* p, unsigned long long v) {
  unsigned long long seen = std::atomic_ref(*p).load();
  while (seen < v && !std::atomic_ref(*p).compare_exchange_weak(seen, v)) {
  }
  return seen;
}

inline void __syncthreads() {
  virtual_gpu::Cta& cta = *virtual_gpu::this_thread().cta;
  cta.meetings[0].meet(virtual_gpu::grid().fibers, cta.launch->threads);
}
inline void __syncwarp() { virtual_gpu::meet_warp(0); }
template <typename T>
T __shfl_sync(unsigned, T value, int from) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = virtual_gpu::meet_warp(bits)[static_cast<std::size_t>(from & 31)];
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline unsigned __ballot_sync(unsigned, bool mine) {
  const auto& all = virtual_gpu::meet_warp(mine ? 1 : 0);
  unsigned out = 0;
  for (std::size_t i = 0; i < 32; ++i) out |= static_cast<unsigned>(all[i]) << i;
  return out;
}
inline bool __any_sync(unsigned mask, bool mine) { return __ballot_sync(mask, mine) != 0; }
inline bool __all_sync(unsigned mask, bool mine) { return __ballot_sync(mask, mine) == ~0u; }

namespace weft {

namespace gpu = virtual_gpu;

inline gpu::Cta& this_cta() { return *gpu::this_thread().cta; }

inline std::uint32_t shared_address(const void* p) { return gpu::shared_address_of(p); }

inline void hold_loads() {}

// mbarriers

inline gpu::Barrier& barrier_of(const std::uint64_t* bar) { return gpu::barrier_at(this_cta(), shared_address(bar)); }

inline void init_barrier(std::uint64_t* bar, int arrivals) {
  auto& all = this_cta().barriers;
  all.push_back(std::make_unique<gpu::Barrier>());
  all.back()->arrivals = all.back()->pending = arrivals;
  *bar = reinterpret_cast<std::uintptr_t>(all.back().get());
}
inline void publish_barriers() {}
inline void arrive(std::uint64_t* bar) { gpu::arrive_at(barrier_of(bar), 1, 0); }
inline void arrive_and_expect(std::uint64_t* bar, int bytes) { gpu::arrive_at(barrier_of(bar), 1, bytes); }
inline gpu::Cta& cta_of_cluster(std::uint32_t cta) {
  gpu::Cta& mine = this_cta();
  return mine.index % 2 == cta ? mine : *mine.beside;
}
inline void arrive_at(std::uint32_t bar, std::uint32_t cta) {
  gpu::arrive_at(gpu::barrier_at(cta_of_cluster(cta), bar), 1, 0);
}
inline void wait_barrier(std::uint32_t bar, int parity) { gpu::wait_for(gpu::barrier_at(this_cta(), bar), parity); }
inline void wait_barrier(std::uint64_t* bar, int parity) { gpu::wait_for(barrier_of(bar), parity); }
inline bool is_past(std::uint32_t bar, int parity) { return gpu::has_passed(gpu::barrier_at(this_cta(), bar), parity); }
inline void cluster_barrier() { gpu::meet_cluster(); }
inline std::uint32_t cta_in_cluster() { return this_cta().index % 2; }

inline void let_next_begin() { gpu::let_next_begin(); }
inline void await_launch_before() { gpu::await_launch_before(); }

template <int kAlignment>
std::uint8_t* dynamic_memory() {
  static_assert(kAlignment <= 1024);
  return this_cta().shared;
}
template <typename T>
T& static_memory() {
  static const char type = 0;
  return *reinterpret_cast<T*>(gpu::declared_memory(&type, sizeof(T)));
}
template <int kCount>
void give_registers_up() {}
template <int kCount>
void take_registers() {}
inline void sync_threads(int id, int count) {
  this_cta().meetings[static_cast<std::size_t>(id)].meet(gpu::grid().fibers, count);
}

// Bulk copies.

inline void load_into(std::function<void(gpu::Cta&)> copy, std::uint32_t bar, int bytes, std::uint16_t mask) {
  gpu::check_fenced("a bulk load");
  for (std::uint32_t cta = 0; cta < 2; ++cta) {
    if ((mask >> cta & 1) == 0) continue;
    gpu::Cta* to = &cta_of_cluster(cta);
    gpu::Bulk load;
    load.cta = to;
    load.read = [] {};
    load.write = [copy, to, bar, bytes] {
      copy(*to);
      gpu::complete(gpu::barrier_at(*to, bar), bytes);
    };
    gpu::grid().ask(std::move(load));
  }
}
inline std::uint16_t own_mask() { return static_cast<std::uint16_t>(1u << cta_in_cluster()); }

inline void load_box_multicast(void* to, const CUtensorMap* from, std::uint64_t* bar, int x, int y,
                               std::uint16_t mask) {
  const gpu::TensorMap map = gpu::decoded(*from);
  const std::uint32_t at = shared_address(to);
  load_into([map, at, x, y](gpu::Cta& cta) { gpu::load(map, cta, at, x, y); }, shared_address(bar), map.box_bytes(),
            mask);
}
inline void load_box(void* to, const CUtensorMap* from, std::uint64_t* bar, int x, int y) {
  load_box_multicast(to, from, bar, x, y, own_mask());
}
inline void load_bytes(void* to, const void* from, int bytes, std::uint64_t* bar) {
  const std::uint32_t at = shared_address(to), size = static_cast<std::uint32_t>(bytes);
  load_into([at, from, size](gpu::Cta& cta) { std::memcpy(gpu::shared_at(cta, at, size), from, size); },
            shared_address(bar), bytes, own_mask());
}

inline void store_from(std::function<std::function<void()>(gpu::Cta&)> read, std::uint32_t at, std::uint32_t bytes) {
  gpu::Thread& me = gpu::this_thread();
  for (const auto& thread : me.cta->threads)
    for (const gpu::Unfenced& one : thread->unfenced)
      if (one.at < at + bytes && at < one.at + one.bytes)
        gpu::grid().report("a bulk store reads shared memory that its writer has not fenced");
  gpu::Bulk store;
  store.cta = me.cta, store.asked = &me;
  auto later = std::make_shared<std::function<void()>>();
  store.read = [read, later, cta = me.cta] { *later = read(*cta); };
  store.write = [later] { (*later)(); };
  ++me.uncommitted;
  gpu::grid().ask(std::move(store));
}
inline void store_box(const CUtensorMap* to, const void* from, int x, int y) {
  const gpu::TensorMap map = gpu::decoded(*to);
  const std::uint32_t at = shared_address(from), bytes = static_cast<std::uint32_t>(map.box_bytes());
  store_from(
      [map, at, bytes, x, y](gpu::Cta& cta) -> std::function<void()> {
        const std::uint8_t* begin = gpu::shared_at(cta, at, bytes);
        return [map, x, y, read = std::vector<std::uint8_t>(begin, begin + bytes)] { gpu::store(map, read, x, y); };
      },
      at, bytes);
}
inline void store_bytes(void* to, const void* from, int bytes) {
  const std::uint32_t at = shared_address(from), size = static_cast<std::uint32_t>(bytes);
  store_from(
      [to, at, size](gpu::Cta& cta) -> std::function<void()> {
        const std::uint8_t* begin = gpu::shared_at(cta, at, size);
        return
            [to, read = std::vector<std::uint8_t>(begin, begin + size)] { std::memcpy(to, read.data(), read.size()); };
      },
      at, size);
}
inline void commit_stores() {
  gpu::Thread& me = gpu::this_thread();
  me.uncommitted = 0;
  for (gpu::Bulk& one : gpu::grid().bulk) {
    if (one.asked != &me || one.committed) continue;
    one.committed = true;
    ++me.unwritten;
    if (!one.has_read) ++me.unread;
  }
}
inline void wait_stores_read() { gpu::await_stores(false); }
inline void wait_stores_done() { gpu::await_stores(true); }
inline void fence_proxies() {
  gpu::this_thread().acquired = false;
  gpu::this_thread().unfenced.clear();
}
inline void fence_proxies_shared() { gpu::this_thread().unfenced.clear(); }

// Counters and time. Who reads one may look for something: others come first.

inline std::uint32_t load_acquire(const std::uint32_t* p) {
  gpu::grid().fibers.look_again();
  gpu::this_thread().acquired = true;
  return std::atomic_ref(*const_cast<std::uint32_t*>(p)).load(std::memory_order_acquire);
}
// A release covers what its warp has written: bulk stores that are not done would come after it.
inline void check_written() {
  const gpu::Thread& me = gpu::this_thread();
  for (std::size_t i = me.index / 32 * 32; i < me.index / 32 * 32 + 32; ++i) {
    const gpu::Thread& other = *me.cta->threads[i];
    if (other.unwritten + other.uncommitted > 0) gpu::grid().report("a counter is raised before bulk stores are done");
  }
}
inline void add_release(std::uint32_t* p, std::uint32_t v) {
  check_written();
  std::atomic_ref(*p).fetch_add(v, std::memory_order_release);
}
inline std::uint32_t add_acquire_release(std::uint32_t* p, std::uint32_t v) {
  check_written();
  return std::atomic_ref(*p).fetch_add(v, std::memory_order_acq_rel);
}
inline unsigned long long load_relaxed(const unsigned long long* p) {
  gpu::grid().fibers.look_again();
  return std::atomic_ref(*const_cast<unsigned long long*>(p)).load(std::memory_order_relaxed);
}
inline void store_relaxed(unsigned long long* p, unsigned long long v) {
  std::atomic_ref(*p).store(v, std::memory_order_relaxed);
}
inline uint4 load_once(const void* p) { return *static_cast<const uint4*>(p); }
// A fourth of the host's: deadlines were made for what is faster.
inline unsigned long long global_ns() {
  return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count()) / 4 / 32 * 32;
}

// Matrices of 8 x 8 bf16 between registers and shared memory: thread i gives row i % 8 of matrix i / 8, and has of
// every matrix two values of row i / 4.

inline void load_matrices(std::uint32_t from, std::uint32_t* q) {
  const auto& rows = gpu::meet_warp(from);
  const auto thread = static_cast<std::uint32_t>(gpu::this_thread().in_warp);
  for (std::uint32_t j = 0; j < 4; ++j)
    std::memcpy(q + j,
                gpu::shared_at(this_cta(), static_cast<std::uint32_t>(rows[j * 8 + thread / 4]), 16) + thread % 4 * 4,
                4);
}
inline void store_matrices(std::uint32_t to, const std::uint32_t* q) {
  const auto& rows = gpu::meet_warp(to);
  const auto thread = static_cast<std::uint32_t>(gpu::this_thread().in_warp);
  for (std::uint32_t j = 0; j < 4; ++j) {
    const std::uint32_t at = static_cast<std::uint32_t>(rows[j * 8 + thread / 4]) + thread % 4 * 4;
    std::memcpy(gpu::shared_at(this_cta(), at, 4), q + j, 4);
    gpu::this_thread().unfenced.push_back({at, 4});
  }
}

inline void load_two(std::uint32_t from, std::uint32_t* q) { std::memcpy(q, gpu::shared_at(this_cta(), from, 8), 8); }
inline void store_two(std::uint32_t to, const std::uint32_t* q) {
  std::memcpy(gpu::shared_at(this_cta(), to, 8), q, 8);
  gpu::this_thread().unfenced.push_back({to, 8});
}

inline float low_of(std::uint32_t v) { return __uint_as_float(v << 16); }
inline float high_of(std::uint32_t v) { return __uint_as_float(v & 0xffff0000u); }
inline std::uint32_t rounded(float v) {  // to bf16, ties to even
  const std::uint32_t bits = __float_as_uint(v);
  if (std::isnan(v)) return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline std::uint32_t pack(float low, float high) { return rounded(low) | rounded(high) << 16; }

// Thread i has rows i / 4 and i / 4 + 8 of a and c, column i / 4 of b; of each pairs 2 * (i % 4) and that + 8.
inline void multiply_add(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2, std::uint32_t a3,
                         std::uint32_t b0, std::uint32_t b1) {
  const auto thread = static_cast<std::size_t>(gpu::this_thread().in_warp), quad = thread / 4 * 4;
  std::array<std::array<float, 16>, 2> rows{};  // thread / 4, and that + 8
  const auto take = [&](const std::array<std::uint64_t, 32>& given, std::size_t depth) {
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t half = 0; half < 2; ++half) {
        const auto two = static_cast<std::uint32_t>(given[quad + i] >> 32 * half);
        rows[half][depth + 2 * i] = low_of(two), rows[half][depth + 2 * i + 1] = high_of(two);
      }
  };
  take(gpu::meet_warp(std::uint64_t{a1} << 32 | a0), 0);
  take(gpu::meet_warp(std::uint64_t{a3} << 32 | a2), 8);
  const auto& columns = gpu::meet_warp(std::uint64_t{b1} << 32 | b0);
  for (std::size_t j = 0; j < 2; ++j) {
    const std::size_t col = 2 * (thread % 4) + j;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto low = static_cast<std::uint32_t>(columns[col * 4 + i]);
      const auto high = static_cast<std::uint32_t>(columns[col * 4 + i] >> 32);
      for (std::size_t half = 0; half < 2; ++half)
        c[2 * half + j] += rows[half][2 * i] * low_of(low) + rows[half][2 * i + 1] * high_of(low) +
                           rows[half][8 + 2 * i] * low_of(high) + rows[half][8 + 2 * i + 1] * high_of(high);
    }
  }
}

}  // namespace weft
