// The kernel: a persistent gemm in bf16 that walks lane tables (lane_table.h), adds what other ranks have sent, and
// stores and signals where its plan says. A rank is a range of clusters of one launch, or a launch; a cluster takes
// every n-th pair of its rank's lanes. A CTA has three warpgroups:
//
//   warp 0        loads x and w into three stages; w is shared with the other CTA of the cluster
//   warp 1        waits for the lane's counters, then loads its sources, strip by strip
//   warp 2        stores the strips of the sum, then signals
//   warp 3        triggers: copies through a slot of its own, and signals (strips.cuh)
//   groups 1, 2   multiply 64 rows each; beside that, write the strips of the tile before and read the sources of this
//                 one; then add, finish and round
//
// Strips go round in four slots of shared memory: warp 1 -> groups 1 and 2 -> warp 2 -> warp 1. A tile takes a slot for
// each strip of each of its sources, one after the other, which are only read; then one for each strip of its sum. So
// any number of sources is folded in listed order, in f32. A lane without a product is the sum of its sources alone,
// written in place of the last.
//
// docs/cuda.md says which instruction orders what. Traced runs have kernels of their own (traced_gemm.cu), and so have
// sums that are kept and sent as f32 (wide_gemm.cu): tiles of half as many columns.
#pragma once

#include "weft/exec/cuda/gemm/fused_gemm.h"
#include "weft/exec/cuda/gemm/lane_waits.cuh"
#include "weft/exec/cuda/gemm/make_tiles.cuh"
#include "weft/exec/cuda/gemm/strips.cuh"

namespace weft {

inline constexpr int kGemmThreads = 384, kConsumers = 256;

// ---- warp 0 ----

struct Operand {
  int row, col, reads;
  bool multiplies;
};

__device__ __forceinline__ Operand operand_of(const DeviceRank& rank, const Seat& me, int pair) {
  const int index = 2 * pair + me.cta;
  const DeviceLane& lane = rank.lanes[index];
  const int row = lane.row, col = lane.col, reads = lane.reads;
  return {row, col, reads, work_of(me, load_work(rank, index)).multiplies};
}

// `last` is the counter that was waited for last: met once, it stays met, and the tiles of a row have one.
__device__ __forceinline__ void await_rows(const DeviceArguments& a, const DeviceRank& rank, const Seat& me, int index,
                                           std::uint32_t* last) {
  const DeviceLane& lane = rank.lanes[index];
  for (int i = 0; i < lane.waits; ++i) {
    const DeviceWait wait = rank.waits[lane.first_wait + i];
    if (lane.waits == 1 && wait.counter == *last) return;
    await(a, rank, wait, me.run, {me.rank, 0, index, i});
    *last = wait.counter;
  }
  fence_proxies();
}

// What the next pair is, is asked for when the stages are full: there is time for it then.
template <WeightLayout kLayout, Dtype kSum, Trace kTrace>
__device__ __forceinline__ void load_operands(const DeviceArguments& a, GemmMemory& s, const Seat& me) {
  constexpr int kCols = kCudaTileCols / kHalvesOf<kSum> / 2;  // of w that each CTA of the cluster loads
  constexpr int kColsBytes = kCols * kBlockDepth * 2;
  const DeviceRank& rank = a.ranks[me.rank];
  Turn<kStages> turn;
  if (me.slot >= rank.pairs) return;
  Operand next = operand_of(rank, me, me.slot);
  std::uint32_t last = ~0u;
  for (int t = me.slot; t < rank.pairs; t += a.clusters_per_rank) {
    const Operand now = next;
    const int later = ::min(t + a.clusters_per_rank, rank.pairs - 1);
    if (!now.multiplies || a.k_blocks <= kStages) next = operand_of(rank, me, later);
    if (!now.multiplies) continue;
    const int index = 2 * t + me.cta;
    if (now.reads > 0) {  // rows that other ranks send
      note<kTrace>(rank, index, &LaneTimes::rows);
      await_rows(a, rank, me, index, &last);
      note<kTrace>(rank, index, &LaneTimes::rows_met);
    }
    for (int block = 0; block < a.k_blocks; ++block, turn.next()) {
      if (block == kStages) next = operand_of(rank, me, later);
      wait_barrier(s.empty + turn.at, turn.parity ^ 1);
      if (block == 0) note<kTrace>(rank, index, &LaneTimes::asked);
      std::uint8_t* x = s.stages[turn.at];
      std::uint8_t* w = x + kXBytes + me.cta * kColsBytes;
      std::uint64_t* full = s.full + turn.at;
      const int k = block * kBlockDepth, first = now.col / kHalvesOf<kSum> + me.cta * kCols;
      arrive_and_expect(full, kXBytes + 2 * kColsBytes);
      load_box(x, rank.maps + now.reads, full, k, now.row);
      if constexpr (kLayout == WeightLayout::nk) {
        load_box_multicast(w, &rank.w, full, k, first, 3);
      } else {
        load_box_multicast(w, &rank.w, full, first, k, 3);
        if constexpr (kColsBytes > kWBlockBytes)
          load_box_multicast(w + kWBlockBytes, &rank.w, full, first + kStripCols, k, 3);
      }
    }
    note<kTrace>(rank, index, &LaneTimes::asked_last);
  }
}

// ---- warp 1 ----

template <Trace kTrace>
__device__ __forceinline__ void load_sources(const DeviceArguments& a, GemmMemory& s, const Seat& me) {
  const DeviceRank& rank = a.ranks[me.rank];
  Turn<kSlots> turn;
  std::uint32_t granted = ~0u;  // the counter of the last credit: met once, it stays met
  for (int t = me.slot; t < rank.pairs; t += a.clusters_per_rank) {
    const int index = 2 * t + me.cta;
    const DeviceLane& lane = rank.lanes[index];
    const Work work = work_of(me, load_work(rank, index));
    if (lane.waits > 0) note<kTrace>(rank, index, &LaneTimes::waits);
    for (int i = 0; i < lane.waits; ++i) {
      const DeviceWait wait = rank.waits[lane.first_wait + i];
      if (wait.lag > 0 && wait.counter == granted) continue;
      await(a, rank, wait, me.run, {me.rank, 0, index, i});
      if (wait.lag > 0) granted = wait.counter;
      if constexpr (kTrace == Trace::yes) rank.met[lane.first_wait + i] = global_ns();
    }
    fence_proxies();  // what the counters cover is read by bulk copies
    for (int strip = 0; strip < work.strips; ++strip)
      for (int i = 0; i < work.sources; ++i, turn.next()) {
        wait_barrier(s.free + turn.at, turn.parity ^ 1);
        load_strip(rank, rank.sources[lane.first_source + i], me.run, strip, s.slots[turn.at], s.loaded + turn.at);
      }
    for (int i = 0; i < work.empty_slots(); ++i, turn.next()) {
      wait_barrier(s.free + turn.at, turn.parity ^ 1);
      arrive(s.loaded + turn.at);
    }
  }
}

// ---- warp 2 ----

template <Trace kTrace>
__device__ __forceinline__ void store_sums(const DeviceArguments& a, GemmMemory& s, const Seat& me, int thread) {
  const DeviceRank& rank = a.ranks[me.rank];
  Turn<kSlots> turn;
  for (int t = me.slot; t < rank.pairs; t += a.clusters_per_rank) {
    const int index = 2 * t + me.cta;
    const DeviceLane& lane = rank.lanes[index];
    const Work work = work_of(me, load_work(rank, index));
    for (int i = 0, strip = 0; i < work.slots(); ++i, turn.next()) {
      wait_barrier(s.summed + turn.at, turn.parity);
      if (work.holds_sum(i)) {
        if (strip == 0 && thread == 0) note<kTrace>(rank, index, &LaneTimes::stores);
        if (work.rows > 0) store_strip(a, rank, lane, me, {work.rows, lane.cols}, s.slots[turn.at], strip, thread);
        if (thread == 0) {
          commit_stores();
          wait_stores_read();
        }
        ++strip;
      }
      arrive(s.free + turn.at);  // every thread: some of them may have read the slot
    }
    if (lane.signals > 0) {
      if (thread == 0) {
        wait_stores_done();
        fence_proxies();  // what bulk copies wrote comes before the release
      }
      __syncwarp();  // and before those of the other threads: each raises one, since a release takes a microsecond
      for (int i = thread; i < lane.signals; i += 32) {
        const DeviceSignal& signal = rank.signals[lane.first_signal + i];
        raise(a, me.rank, signal, live_bytes(signal, work.rows, lane.rows));
      }
    }
    __syncwarp();
    if (thread == 0) note<kTrace>(rank, index, &LaneTimes::told);
  }
  if (thread == 0) wait_stores_done();
}

// The last CTA to end counts the run; nobody reads its number after that.
__device__ __forceinline__ void count_run(const DeviceArguments& a) {
  __threadfence();
  if (atomicAdd(a.run + 1, 1u) + 1 != gridDim.x) return;
  a.run[1] = 0;
  atomicAdd(a.run, 1u);
}

template <WeightLayout kLayout, Finish kFinish, Dtype kSum, Trace kTrace>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kGemmThreads, 1)
    fused_gemm(const DeviceArguments __grid_constant__ a) {
  GemmMemory& s = *reinterpret_cast<GemmMemory*>(dynamic_memory<alignof(GemmMemory)>());
  const int warp = threadIdx.x / 32, thread = threadIdx.x % 32, cluster = blockIdx.x / 2;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) init_barrier(s.full + i, 1), init_barrier(s.empty + i, 4);  // 2 groups of 2 CTAs
    for (int i = 0; i < kSlots; ++i)
      init_barrier(s.loaded + i, 1), init_barrier(s.summed + i, kConsumers), init_barrier(s.free + i, 32);
    init_barrier(&s.copied, 1), init_barrier(&s.copy_free, 32);
    publish_barriers();
  }
  let_next_begin();
  await_launch_before();
  const Seat me{a.first_rank + cluster / a.clusters_per_rank, cluster % a.clusters_per_rank, cta_in_cluster(), *a.run,
                s.counts};
  if (threadIdx.x <= a.num_ranks) {
    const DeviceRank& rank = a.ranks[me.rank];
    s.counts[threadIdx.x] = a.counts_on_device != 0 ? rank.counts[threadIdx.x] : rank.given_counts[threadIdx.x];
  }
  cluster_barrier();
  if (warp < 4) {
    give_registers_up<56>();
    if (warp == 0 && thread == 0) load_operands<kLayout, kSum, kTrace>(a, s, me);
    if (warp == 1 && thread == 0) load_sources<kTrace>(a, s, me);
    if (warp == 2) store_sums<kTrace>(a, s, me, thread);
    if (warp == 3) fire_triggers<kTrace>(a, me, {s.copy, &s.copied, &s.copy_free, 0}, thread);
  } else {
    take_registers<224>();
    make_tiles<kLayout, kFinish, kSum>(a, s, me);
  }
  __syncwarp();
  cluster_barrier();  // no CTA leaves while the other may still write into it
  if (threadIdx.x == 0) count_run(a);
}

template <Dtype kSum, Trace kTrace>
FusedGemm gemm_with(WeightLayout layout, bool finishes) {
  constexpr auto kNk = WeightLayout::nk, kKn = WeightLayout::kn;
  constexpr auto kNone = Finish::none, kSome = Finish::some;
  const auto kernel = layout == kNk
                          ? (finishes ? fused_gemm<kNk, kSome, kSum, kTrace> : fused_gemm<kNk, kNone, kSum, kTrace>)
                          : (finishes ? fused_gemm<kKn, kSome, kSum, kTrace> : fused_gemm<kKn, kNone, kSum, kTrace>);
  return {kernel, kGemmThreads, kSharedBytes};
}

}  // namespace weft
