// The instructions of sm_90a that C++ has no words for, one function each. Names follow the PTX manual: bulk copies are
// the TMA's, an mbarrier counts arrivals and bytes. Default qualifiers on mbarriers are meant: .release.cluster and
// .acquire.cluster put a fence for the whole GPU into every k-block (0.70 of the speed).
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>

namespace weft {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// Loads behind this are not asked for before it: the compiler would ask for all at once, with more registers than there
// are.
__device__ __forceinline__ void hold_loads() { asm volatile("" ::: "memory"); }

// mbarriers

__device__ __forceinline__ void init_barrier(std::uint64_t* bar, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(arrivals));
}
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(std::uint64_t* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
__device__ __forceinline__ void arrive_and_expect(std::uint64_t* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes)
               : "memory");
}
// At the same barrier of another CTA of the cluster; by its address in shared memory, as those below.
__device__ __forceinline__ void arrive_at(std::uint32_t bar, std::uint32_t cta) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::
          "r"(bar),
      "r"(cta)
      : "memory");
}
__device__ __forceinline__ void wait_barrier(std::uint32_t bar, int parity) {
  asm volatile(
      "{ .reg .pred P; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1; @P bra DONE; bra AGAIN; DONE: }" ::
          "r"(bar),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void wait_barrier(std::uint64_t* bar, int parity) {
  wait_barrier(shared_address(bar), parity);
}
// Whether a wait would end at once.
__device__ __forceinline__ bool is_past(std::uint32_t bar, int parity) {
  std::uint32_t past;
  asm volatile("{ .reg .pred P; mbarrier.test_wait.parity.shared::cta.b64 P, [%1], %2; selp.b32 %0, 1, 0, P; }"
               : "=r"(past)
               : "r"(bar), "r"(parity)
               : "memory");
  return past != 0;
}
__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ std::uint32_t cta_in_cluster() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Lets the next launch in the queue begin, where it may; its CTAs still need room.
__device__ __forceinline__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// Waits for the end of the launch before: nothing that a launch writes is read before that.
__device__ __forceinline__ void await_launch_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// The memory of a CTA: what it was launched with, and what the kernel declares.
template <int kAlignment>
__device__ __forceinline__ std::uint8_t* dynamic_memory() {
  extern __shared__ __align__(kAlignment) std::uint8_t memory[];
  return memory;
}
template <typename T>
__device__ __forceinline__ T& static_memory() {
  __shared__ T memory;
  return memory;
}

// Registers per thread of a warpgroup, more or fewer than it was launched with.
template <int kCount>
__device__ __forceinline__ void give_registers_up() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Barrier `id` of a CTA, for `count` of its threads.
__device__ __forceinline__ void sync_threads(int id, int count) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory");
}

// Bulk copies. Loads complete on an mbarrier, stores in the calling thread's bulk groups.

__device__ __forceinline__ void load_box(void* to, const CUtensorMap* from, std::uint64_t* bar, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          shared_address(to)),
      "l"(from), "r"(shared_address(bar)), "r"(x), "r"(y)
      : "memory");
}
// To the same place in every CTA of the mask, each of whose barriers counts the bytes.
__device__ __forceinline__ void load_box_multicast(void* to, const CUtensorMap* from, std::uint64_t* bar, int x, int y,
                                                   std::uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
      "l"(from), "r"(shared_address(bar)), "r"(x), "r"(y), "h"(mask)
      : "memory");
}
// Partial sums and outputs are not read again soon, and L2 should keep operands rather than them: of the fused ring's
// reads of DRAM this saves 0.25 GB of 1.12 (8192 x 8192 x 1024, 4 ranks).
constexpr std::uint64_t kEvictFirst = 0x12F0000000000000;

__device__ __forceinline__ void load_bytes(void* to, const void* from, int bytes, std::uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(bar)), "l"(kEvictFirst)
      : "memory");
}
__device__ __forceinline__ void store_box(const CUtensorMap* to, const void* from, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3}], [%1], %4;" ::"l"(to),
      "r"(shared_address(from)), "r"(x), "r"(y), "l"(kEvictFirst)
      : "memory");
}
__device__ __forceinline__ void store_bytes(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes), "l"(kEvictFirst)
               : "memory");
}
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_stores_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void wait_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// Orders what threads read and write with what bulk copies do.
__device__ __forceinline__ void fence_proxies() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ __forceinline__ void fence_proxies_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Counters and time.

__device__ __forceinline__ std::uint32_t load_acquire(const std::uint32_t* p) {
  std::uint32_t v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void add_release(std::uint32_t* p, std::uint32_t v) {
  asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ std::uint32_t add_acquire_release(std::uint32_t* p, std::uint32_t v) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.sys.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
  return old;
}
__device__ __forceinline__ unsigned long long load_relaxed(const unsigned long long* p) {
  unsigned long long v;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_relaxed(unsigned long long* p, unsigned long long v) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
// 16 bytes that nobody writes while the kernel runs, and that are read once.
__device__ __forceinline__ uint4 load_once(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
__device__ __forceinline__ unsigned long long global_ns() {  // moves in steps of 32 ns
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// Matrices of 8 x 8 bf16 between registers and shared memory.

__device__ __forceinline__ void load_matrices(std::uint32_t from, std::uint32_t* q) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(q[0]), "=r"(q[1]), "=r"(q[2]), "=r"(q[3])
               : "r"(from)
               : "memory");
}
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  const __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&v);
}
__device__ __forceinline__ float low_of(std::uint32_t v) { return __uint_as_float(v << 16); }
__device__ __forceinline__ float high_of(std::uint32_t v) { return __uint_as_float(v & 0xffff0000u); }
__device__ __forceinline__ void store_matrices(std::uint32_t to, const std::uint32_t* q) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(q[0]), "r"(q[1]),
               "r"(q[2]), "r"(q[3])
               : "memory");
}
// Two words in shared memory, at a multiple of 8 bytes.
__device__ __forceinline__ void load_two(std::uint32_t from, std::uint32_t* q) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(q[0]), "=r"(q[1]) : "r"(from) : "memory");
}
__device__ __forceinline__ void store_two(std::uint32_t to, const std::uint32_t* q) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(q[0]), "r"(q[1]) : "memory");
}
// c += a * b of a warp: a (16, 16) in rows, b (16, 8) in columns, bf16.
__device__ __forceinline__ void multiply_add(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                             std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

}  // namespace weft
