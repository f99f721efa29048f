// The kernel: a persistent gemm in bf16 that walks lane tables (lane_table.h), adds what other ranks have sent, and
// stores and signals where its plan says. A rank is a range of clusters of one launch; a cluster takes every n-th pair
// of its rank's lanes. A CTA has three warpgroups:
//
//   warp 0        loads x and w into three stages; w is shared with the other CTA of the cluster
//   warp 1        waits for the lane's counters, then loads its sources, strip by strip
//   warp 2        stores the strips of the sum, then signals
//   warp 3        triggers
//   groups 1, 2   multiply 64 rows each, add the sources, round, and write each strip in place of its last source
//
// Strips go round in four slots of shared memory: warp 1 -> groups 1 and 2 -> warp 2 -> warp 1. A tile of s sources
// takes max(1, s) slots per strip, one after the other: without sources the slot comes empty; with several, all but the
// last are only read, and the sum is kept in registers. So any number of sources is folded in listed order, in f32.
//
// docs/cuda.md says which instruction orders what.
#include "weft/exec/cuda/fused_gemm.h"
#include "weft/exec/cuda/ptx.cuh"
#include "weft/exec/cuda/wgmma.cuh"

namespace weft {
namespace {

constexpr int kStages = 3, kSlots = 4;
constexpr int kXBytes = kCudaTileRows * kBlockDepth * 2, kWBytes = kCudaTileCols * kBlockDepth * 2;
constexpr int kHalfWBytes = kWBytes / 2, kWBlockBytes = kBlockDepth * kStripCols * 2;
constexpr int kThreads = 384, kConsumers = 256;

struct SharedMemory {
  std::uint8_t stages[kStages][kXBytes + kWBytes];
  std::uint8_t slots[kSlots][kStripBytes];
  std::uint64_t full[kStages], empty[kStages];
  std::uint64_t loaded[kSlots], summed[kSlots], free[kSlots];
};
constexpr int kSharedBytes = sizeof(SharedMemory) + 1024;  // swizzled blocks begin at multiples of 1024

// A place in a ring of barriers: which, and the parity of its turn.
template <int kCount>
struct Turn {
  int at = 0, parity = 0;
  __device__ __forceinline__ void next() {
    if (++at == kCount) at = 0, parity ^= 1;
  }
};

// Where 16 bytes of a row of a strip are.
__device__ __forceinline__ int swizzled(int row, int part) { return row * kStripCols * 2 + (part ^ (row & 7)) * 16; }

struct Place {
  int rank, slot;  // of the rank's clusters
  std::uint32_t cta;
};

// ---- waits and signals ----

__device__ __forceinline__ bool is_met(const DeviceArguments& a, const DeviceRank& rank, const DeviceWait& wait,
                                       std::uint32_t* seen) {
  if (a.run < static_cast<std::uint32_t>(wait.lag)) return true;
  const std::uint32_t need = (a.run - wait.lag) * wait.total + wait.at;
  *seen = load_acquire(rank.counters + wait.counter);
  if (static_cast<std::int32_t>(*seen - need) < 0) return false;
  // The stamp was raised before the counter was, and the counter acquired.
  return a.ns_per_byte == 0 || global_ns() >= load_relaxed(rank.stamps + wait.counter);
}

struct Waiter {
  int rank, trigger, index, wait;
};

__device__ __noinline__ void give_up(const DeviceArguments& a, const Waiter& who, const DeviceWait& wait,
                                     std::uint32_t seen, unsigned long long waited) {
  if (atomicExch(a.gave_up, 1u) != 0) return;
  DeviceFailure* f = a.failure;
  f->rank = who.rank, f->trigger = who.trigger, f->index = who.index, f->wait = who.wait;
  f->seen = seen, f->started = (a.run - wait.lag) * wait.total;
  f->waited_ns = waited;
  __threadfence_system();
  *reinterpret_cast<volatile std::uint32_t*>(&f->failed) = 1;
}

__device__ __forceinline__ void await(const DeviceArguments& a, const DeviceRank& rank, const DeviceWait& wait,
                                      const Waiter& who) {
  std::uint32_t seen = 0;
  if (is_met(a, rank, wait, &seen)) return;
  const unsigned long long begin = global_ns();
  while (!is_met(a, rank, wait, &seen)) {
    const unsigned long long waited = global_ns() - begin;
    if (waited > a.deadline_ns) return give_up(a, who, wait, seen, waited);
    if (waited > 100000 && load_acquire(a.gave_up) != 0) return;
  }
}

// Takes the next free time of the link between two hosts: when the bytes have passed. A clock that is behind is brought
// up to now first, and what others add meanwhile only moves it on: so there is nothing to try again. (A loop of
// compare-and-swap managed one signal per microsecond and link, and held up the gemm.)
__device__ __forceinline__ unsigned long long pass_link(const DeviceArguments& a, int from, int to, int bytes) {
  unsigned long long* clock = a.links + from * kMaxCudaRanks + to;
  const auto took = static_cast<unsigned long long>(static_cast<float>(bytes) * a.ns_per_byte + 0.5f);
  atomicMax_system(clock, global_ns());
  return atomicAdd_system(clock, took) + took;
}

__device__ __forceinline__ void raise(const DeviceArguments& a, int from, const DeviceSignal& signal) {
  const DeviceRank& to = a.ranks[signal.rank];
  const int host = from / a.ranks_per_host, other = signal.rank / a.ranks_per_host;
  if (a.ns_per_byte > 0 && host != other) {
    const unsigned long long due =
        pass_link(a, host, other, signal.bytes) + static_cast<unsigned long long>(a.latency_ns);
    atomicMax_system(to.stamps + signal.counter, due);
  }
  add_release(to.counters + signal.counter, 1);
}

// ---- warp 0 ----

template <WeightLayout kLayout>
__device__ __forceinline__ void load_operands(const DeviceArguments& a, SharedMemory& s, const Place& me) {
  const DeviceRank& rank = a.ranks[me.rank];
  Turn<kStages> turn;
  for (int t = me.slot; t < rank.pairs; t += a.clusters_per_rank) {
    const DeviceLane& lane = rank.lanes[2 * t + me.cta];
    const int row = lane.row, col = lane.col;
    for (int block = 0; block < a.k_blocks; ++block, turn.next()) {
      wait_barrier(s.empty + turn.at, turn.parity ^ 1);
      std::uint8_t* x = s.stages[turn.at];
      std::uint8_t* w = x + kXBytes + me.cta * kHalfWBytes;
      std::uint64_t* full = s.full + turn.at;
      const int k = block * kBlockDepth;
      arrive_and_expect(full, kXBytes + kWBytes);
      load_box(x, &rank.x, full, k, row);
      if constexpr (kLayout == WeightLayout::nk) {
        load_box_multicast(w, &rank.w, full, k, col + me.cta * (kCudaTileCols / 2), 3);
      } else {
        const int first = col + me.cta * (kCudaTileCols / 2);
        load_box_multicast(w, &rank.w, full, first, k, 3);
        load_box_multicast(w + kWBlockBytes, &rank.w, full, first + kStripCols, k, 3);
      }
    }
  }
}

// ---- warp 1 ----

__device__ __forceinline__ int strips_of(const DeviceLane& lane) { return (lane.cols + kStripCols - 1) / kStripCols; }

__device__ __forceinline__ void load_sources(const DeviceArguments& a, SharedMemory& s, const Place& me) {
  const DeviceRank& rank = a.ranks[me.rank];
  Turn<kSlots> turn;
  std::uint32_t granted = ~0u;  // the counter of the last credit: met once, it stays met
  for (int t = me.slot; t < rank.pairs; t += a.clusters_per_rank) {
    const int index = 2 * t + me.cta;
    const DeviceLane& lane = rank.lanes[index];
    const int sources = lane.sources, strips = strips_of(lane);
    for (int i = 0; i < lane.waits; ++i) {
      const DeviceWait wait = rank.waits[lane.first_wait + i];
      if (wait.lag > 0 && wait.counter == granted) continue;
      await(a, rank, wait, {me.rank, 0, index, i});
      if (wait.lag > 0) granted = wait.counter;
    }
    fence_proxies();  // what the counters cover is read by bulk copies
    for (int strip = 0; strip < strips; ++strip)
      for (int i = 0; i < ::max(sources, 1); ++i, turn.next()) {
        wait_barrier(s.free + turn.at, turn.parity ^ 1);
        if (sources == 0) {
          arrive(s.loaded + turn.at);
          continue;
        }
        const std::uint8_t* from = rank.segment + rank.sources[lane.first_source + i].offset + strip * kStripBytes;
        arrive_and_expect(s.loaded + turn.at, kStripBytes);
        load_bytes(s.slots[turn.at], from, kStripBytes, s.loaded + turn.at);
      }
  }
}

// ---- warp 2 ----

// Where a strip does not reach the end of the output, but ends within a box: by the threads of the warp.
__device__ __forceinline__ void store_ragged(const DeviceRank& rank, const DevicePlace& place, const DeviceLane& lane,
                                             const std::uint8_t* slot, int first, int thread) {
  constexpr int kPart = 16, kParts = kStripCols * 2 / kPart;
  for (int i = thread; i < lane.rows * kParts; i += 32) {
    const int row = i / kParts, part = i % kParts;
    if (first + part * 8 >= lane.cols) continue;
    const uint4 value = *reinterpret_cast<const uint4*>(slot + swizzled(row, part));
    const std::int64_t to =
        (static_cast<std::int64_t>(place.row + row) * rank.output_cols + place.col + first + part * 8) * 2;
    *reinterpret_cast<uint4*>(rank.output + to) = value;
  }
  __threadfence_system();
  __syncwarp();
}

// A box that reaches beyond the output is cut off there.
__device__ __forceinline__ bool fits_box(const DeviceRank& rank, const DevicePlace& place, const DeviceLane& lane,
                                         int first) {
  return (lane.rows == kCudaTileRows || place.row + lane.rows == rank.output_rows) &&
         (first + kStripCols <= lane.cols || place.col + lane.cols == rank.output_cols);
}

__device__ __forceinline__ void store_strip(const DeviceArguments& a, const DeviceRank& rank, const DeviceLane& lane,
                                            const std::uint8_t* slot, int strip, int thread) {
  for (int i = 0; i < lane.targets; ++i) {
    const DevicePlace& place = rank.targets[lane.first_target + i];
    const DeviceRank& to = a.ranks[place.rank];
    const int first = strip * kStripCols;
    if (place.image) {
      if (thread == 0) store_bytes(to.segment + place.offset + strip * kStripBytes, slot, kStripBytes);
    } else if (fits_box(to, place, lane, first)) {
      if (thread == 0) store_box(&to.y, slot, place.col + first, place.row);
    } else {
      store_ragged(to, place, lane, slot, first, thread);
    }
  }
}

__device__ __forceinline__ void store_sums(const DeviceArguments& a, SharedMemory& s, const Place& me, int thread) {
  const DeviceRank& rank = a.ranks[me.rank];
  Turn<kSlots> turn;
  for (int t = me.slot; t < rank.pairs; t += a.clusters_per_rank) {
    const DeviceLane& lane = rank.lanes[2 * t + me.cta];
    const int last = ::max(int{lane.sources}, 1) - 1, strips = strips_of(lane);
    for (int strip = 0; strip < strips; ++strip)
      for (int i = 0; i <= last; ++i, turn.next()) {
        wait_barrier(s.summed + turn.at, turn.parity);
        if (i == last) store_strip(a, rank, lane, s.slots[turn.at], strip, thread);
        if (thread == 0) {
          commit_stores();
          wait_stores_read();
          arrive(s.free + turn.at);
        }
        __syncwarp();
      }
    if (lane.signals > 0 && thread == 0) {
      wait_stores_done();
      fence_proxies();  // what bulk copies wrote comes before the release
      for (int i = 0; i < lane.signals; ++i) raise(a, me.rank, rank.signals[lane.first_signal + i]);
    }
    __syncwarp();
  }
  if (thread == 0) wait_stores_done();
}

// ---- warp 3 ----

// The triggers of a rank are dealt out to its CTAs; each fires those that are ready until none is left. What they wait
// for is what steps do, so they give up later than steps, which know more.
__device__ __forceinline__ void fire_triggers(const DeviceArguments& a, const Place& me) {
  const DeviceRank& rank = a.ranks[me.rank];
  const int first = 2 * me.slot + me.cta, step = 2 * a.clusters_per_rank;
  const unsigned long long begin = global_ns();
  for (bool left = true; left;) {
    left = false;
    for (int i = first; i < rank.num_triggers; i += step) {
      if (rank.fired[i] == a.run + 1) continue;
      const DeviceLane& lane = rank.triggers[i];
      bool ready = true;
      for (int w = 0; w < lane.waits && ready; ++w) {
        const DeviceWait wait = rank.waits[lane.first_wait + w];
        std::uint32_t seen = 0;
        ready = is_met(a, rank, wait, &seen);
        const unsigned long long waited = global_ns() - begin;
        if (!ready && waited > 2 * a.deadline_ns) give_up(a, {me.rank, 1, i, w}, wait, seen, waited);
      }
      if (!ready && load_acquire(a.gave_up) == 0) {
        left = true;
        continue;
      }
      for (int k = 0; k < lane.signals; ++k) raise(a, me.rank, rank.signals[lane.first_signal + k]);
      rank.fired[i] = a.run + 1;
    }
    if (left) __nanosleep(200);
  }
}

// ---- warpgroups 1 and 2 ----

template <WeightLayout kLayout>
__device__ __forceinline__ void multiply_blocks(const DeviceArguments& a, SharedMemory& s, int group, int thread,
                                                Turn<kStages>* turn, float (&d)[128]) {
  for (int block = 0; block < a.k_blocks; ++block, turn->next()) {
    wait_barrier(s.full + turn->at, turn->parity);
    const std::uint32_t stage = shared_address(s.stages[turn->at]);
    const std::uint64_t x = descriptor(stage + group * (kXBytes / 2), 16, 1024);
    const std::uint64_t w = descriptor(stage + kXBytes, kLayout == WeightLayout::kn ? kWBlockBytes : 16, 1024);
    constexpr int kWStep = kLayout == WeightLayout::kn ? 16 * 128 / 16 : 2;  // 16 deep, in units of 16 bytes
    begin_products();
#pragma unroll
    for (int k = 0; k < kBlockDepth / 16; ++k) multiply<kLayout>(d, x + k * 2, w + k * kWStep, block > 0 || k > 0);
    commit_products();
    wait_products();
    if (thread < 2) arrive_at(s.empty + turn->at, thread);
  }
#pragma unroll
  for (int i = 0; i < 128; ++i) asm volatile("" : "+f"(d[i])::"memory");  // not read before the products are there
}

constexpr int kMatrices = kStripCols / 16;  // groups of four that a warp has of a strip

template <typename Add>
__device__ __forceinline__ void for_each_pair(std::uint32_t slot, int row, int thread, Add&& add) {
  std::uint32_t q[kMatrices][4];
#pragma unroll
  for (int j = 0; j < kMatrices; ++j) load_matrices(slot + swizzled(row, j * 2 + (thread >> 4)), q[j]);
#pragma unroll
  for (int j = 0; j < kMatrices * 4; ++j) add(2 * j, low_of(q[j / 4][j % 4]), high_of(q[j / 4][j % 4]));
}

// Adds the sources of one strip to its sums, (((s0 + s1) + ...) + d), and writes them in place of the last. `row` is
// the one whose address this thread hands to ldmatrix and stmatrix. An epilogue is bound by instructions: one per
// element takes 256 cycles of a multiprocessor, so a single source has its own way.
__device__ __forceinline__ void sum_strip(SharedMemory& s, int row, int sources, Turn<kSlots>* turn, float* d) {
  const int last = ::max(sources, 1) - 1, thread = threadIdx.x % 32;
  float sum[kMatrices * 8];
  for (int i = 0; i <= last; ++i, turn->next()) {
    wait_barrier(s.loaded + turn->at, turn->parity);
    const std::uint32_t slot = shared_address(s.slots[turn->at]);
    if (sources == 1) {
      for_each_pair(slot, row, thread, [&](int j, float low, float high) { d[j] += low, d[j + 1] += high; });
    } else if (sources > 1 && i == 0) {
      for_each_pair(slot, row, thread, [&](int j, float low, float high) { sum[j] = low, sum[j + 1] = high; });
    } else if (sources > 1) {
      for_each_pair(slot, row, thread, [&](int j, float low, float high) { sum[j] += low, sum[j + 1] += high; });
    }
    if (i == last) {
      if (sources > 1)
#pragma unroll
        for (int j = 0; j < kMatrices * 8; ++j) d[j] += sum[j];
#pragma unroll
      for (int j = 0; j < kMatrices; ++j) store_matrices(slot + swizzled(row, j * 2 + (thread >> 4)), d + j * 8);
      fence_proxies_shared();
    }
    arrive(s.summed + turn->at);  // every thread: racecheck follows no barrier of a warp
  }
}

template <WeightLayout kLayout>
__device__ __forceinline__ void make_tiles(const DeviceArguments& a, SharedMemory& s, const Place& me) {
  const DeviceRank& rank = a.ranks[me.rank];
  const int group = threadIdx.x / 128 - 1, thread = threadIdx.x % 128;
  const int row = group * 64 + thread / 32 * 16 + thread % 16;  // that this thread hands to ldmatrix and stmatrix
  Turn<kStages> stage;
  Turn<kSlots> slot;
  float d[128];
  for (int t = me.slot; t < rank.pairs; t += a.clusters_per_rank) {
    const DeviceLane& lane = rank.lanes[2 * t + me.cta];
    const int sources = lane.sources, strips = strips_of(lane);
    multiply_blocks<kLayout>(a, s, group, thread, &stage, d);
#pragma unroll
    for (int strip = 0; strip < kCudaTileCols / kStripCols; ++strip)
      if (strip < strips) sum_strip(s, row, sources, &slot, d + strip * (kStripCols / 2));
  }
}

template <WeightLayout kLayout>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    fused_gemm(const __grid_constant__ DeviceArguments a) {
  extern __shared__ std::uint8_t raw[];
  SharedMemory& s = *reinterpret_cast<SharedMemory*>((reinterpret_cast<std::uintptr_t>(raw) + 1023) / 1024 * 1024);
  const int warp = threadIdx.x / 32, thread = threadIdx.x % 32, cluster = blockIdx.x / 2;
  const Place me{cluster / a.clusters_per_rank, cluster % a.clusters_per_rank, cta_in_cluster()};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init_barrier(s.full + i, 1), init_barrier(s.empty + i, 4);  // 2 groups of 2 CTAs
    for (int i = 0; i < kSlots; ++i)
      init_barrier(s.loaded + i, 1), init_barrier(s.summed + i, kConsumers), init_barrier(s.free + i, 1);
    publish_barriers();
  }
  cluster_barrier();
  if (warp < 4) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 0 && thread == 0) load_operands<kLayout>(a, s, me);
    if (warp == 1 && thread == 0) load_sources(a, s, me);
    if (warp == 2) store_sums(a, s, me, thread);
    if (warp == 3 && thread == 0) fire_triggers(a, me);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    make_tiles<kLayout>(a, s, me);
  }
  __syncwarp();
  cluster_barrier();  // no CTA leaves while the other may still write into it
}

}  // namespace

FusedGemm fused_gemm_of(WeightLayout layout) {
  const auto kernel = layout == WeightLayout::nk ? fused_gemm<WeightLayout::nk> : fused_gemm<WeightLayout::kn>;
  return {reinterpret_cast<const void*>(kernel), kThreads, kSharedBytes};
}

}  // namespace weft
