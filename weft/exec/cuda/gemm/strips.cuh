// Strips of a tile, 128 rows of 64 columns in shared memory, between there and the places of a plan; and the triggers,
// which one warp of each CTA fires: those that only signal, and copies strip by strip.
#pragma once

#include "weft/exec/cuda/gemm/lane_waits.cuh"

namespace weft {

// Where 16 bytes of a row of a strip are.
__device__ __forceinline__ int swizzled(int row, int part) { return row * kStripCols * 2 + (part ^ (row & 7)) * 16; }

// The part of a place from column `first` on; completes on the barrier.
__device__ __forceinline__ void load_strip(const DeviceRank& rank, const DevicePlace& place, std::uint32_t run,
                                           int strip, void* slot, std::uint64_t* loaded) {
  arrive_and_expect(loaded, kStripBytes);
  if (place.matrix < 0)
    load_bytes(slot, image_at(rank, place, run) + strip * kStripBytes, kStripBytes, loaded);
  else
    load_box(slot, rank.maps + place.matrix, loaded, place.col + strip * kStripCols, place.row);
}

// A tile as it is stored: fewer rows than it has where a run's counts say so.
struct Extent {
  int rows, cols;
};

// Where a strip does not reach the end of the matrix, but ends within a box: by the threads of the warp.
__device__ __forceinline__ void store_ragged(const DeviceRank& to, const DevicePlace& place, const Extent& tile,
                                             const std::uint8_t* slot, int first, int thread) {
  constexpr int kPart = 16, kParts = kStripCols * 2 / kPart;
  for (int i = thread; i < tile.rows * kParts; i += 32) {
    const int row = i / kParts, part = i % kParts;
    if (first + part * 8 >= tile.cols) continue;
    const uint4 value = *reinterpret_cast<const uint4*>(slot + swizzled(row, part));
    const std::int64_t at =
        (static_cast<std::int64_t>(place.row + row) * to.matrix_cols[place.matrix] + place.col + first + part * 8) * 2;
    *reinterpret_cast<uint4*>(to.matrices[place.matrix] + at) = value;
  }
  __threadfence_system();
  __syncwarp();
}

// A box that reaches beyond the matrix is cut off there.
__device__ __forceinline__ bool fits_box(const DeviceRank& to, const DevicePlace& place, const Extent& tile,
                                         int first) {
  return (tile.rows == kCudaTileRows || place.row + tile.rows == to.matrix_rows[place.matrix]) &&
         (first + kStripCols <= tile.cols || place.col + tile.cols == to.matrix_cols[place.matrix]);
}

__device__ __forceinline__ void store_strip(const DeviceArguments& a, const DeviceRank& rank, const DeviceLane& lane,
                                            const Seat& me, const Extent& tile, const std::uint8_t* slot, int strip,
                                            int thread) {
  for (int i = 0; i < lane.targets; ++i) {
    const DevicePlace& place = rank.targets[lane.first_target + i];
    const DeviceRank& to = a.ranks[place.rank];
    const int first = strip * kStripCols;
    if (place.matrix < 0) {
      if (thread == 0) store_bytes(image_at(to, place, me.run) + strip * kStripBytes, slot, kStripBytes);
    } else if (fits_box(to, place, tile, first)) {
      if (thread == 0) store_box(to.maps + place.matrix, slot, place.col + first, place.row);
    } else {
      store_ragged(to, place, tile, slot, first, thread);
    }
  }
}

// A slot of the warp that fires triggers.
struct CopySlot {
  std::uint8_t* slot;
  std::uint64_t *loaded, *free;
  int parity;
};

__device__ __forceinline__ void copy_tile(const DeviceArguments& a, const DeviceRank& rank, const DeviceLane& lane,
                                          const Seat& me, CopySlot* s, int thread) {
  const Extent tile{live_rows(me, lane), lane.cols};
  const DevicePlace& from = rank.sources[lane.first_source];
  for (int strip = 0; tile.rows > 0 && strip * kStripCols < tile.cols; ++strip, s->parity ^= 1) {
    if (thread == 0) {
      wait_barrier(s->free, s->parity ^ 1);
      load_strip(rank, from, me.run, strip, s->slot, s->loaded);
    }
    __syncwarp();
    wait_barrier(s->loaded, s->parity);
    store_strip(a, rank, lane, me, tile, s->slot, strip, thread);
    fence_proxies_shared();  // threads may have read the slot, which is loaded again
    if (thread == 0) {
      commit_stores();
      wait_stores_read();
    }
    arrive(s->free);
  }
  __syncwarp();
}

// All of the warp. The waits were met, by some of its threads. A copy in parts is charged to its link as if all its
// rows counted: a part knows its own alone.
__device__ __forceinline__ void fire(const DeviceArguments& a, const DeviceRank& rank, const DeviceLane& lane,
                                     const Seat& me, CopySlot* s, int thread) {
  if (lane.targets > 0) {
    if (thread == 0) fence_proxies();  // what the counters cover is read by bulk copies
    copy_tile(a, rank, lane, me, s, thread);
  }
  if (thread == 0) {
    if (lane.targets > 0) {
      wait_stores_done();
      fence_proxies();  // what bulk copies wrote comes before the release
    }
    bool last = true;
    if (lane.parts > 1) {
      last = add_acquire_release(rank.ended + lane.part, 1) + 1 == static_cast<std::uint32_t>(lane.parts);
      if (last) rank.ended[lane.part] = 0;  // for the next run
    }
    const int rows = lane.parts > 1 ? lane.rows : live_rows(me, lane);
    for (int k = 0; last && k < lane.signals; ++k) {
      const DeviceSignal& signal = rank.signals[lane.first_signal + k];
      raise(a, me.rank, signal, live_bytes(signal, rows, lane.rows));
    }
  }
  __syncwarp();
}

// Whether the waits of a trigger are met. What triggers wait for is what steps do, so they give up later than steps,
// which know more.
__device__ __forceinline__ bool is_ready(const DeviceArguments& a, const DeviceRank& rank, const Seat& me, int index,
                                         unsigned long long begin) {
  const DeviceLane& lane = rank.triggers[index];
  for (int w = 0; w < lane.waits; ++w) {
    const DeviceWait wait = rank.waits[lane.first_wait + w];
    std::uint32_t seen = 0;
    if (is_met(a, rank, wait, me.run, &seen)) continue;
    const unsigned long long waited = global_ns() - begin;
    if (waited > 2 * a.deadline_ns) give_up(a, {me.rank, 1, index, w}, wait, me.run, seen, waited);
    return load_acquire(a.gave_up) != 0;
  }
  return true;
}

// The triggers of a rank are dealt out to its CTAs; each fires those that are ready until none is left. Every thread
// looks at one of them: a look takes most of a microsecond.
template <Trace kTrace>
__device__ __forceinline__ void fire_triggers(const DeviceArguments& a, const Seat& me, CopySlot s, int thread) {
  const DeviceRank& rank = a.ranks[me.rank];
  const int first = 2 * me.slot + me.cta, step = 2 * a.clusters_per_rank;
  const unsigned long long begin = global_ns();
  for (bool left = true; left;) {
    left = false;
    for (int base = first; base < rank.num_triggers; base += 32 * step) {
      const int mine = base + thread * step;
      const bool waits = mine < rank.num_triggers && rank.fired[mine] != me.run + 1;
      const bool fires = waits && is_ready(a, rank, me, mine, begin);
      __syncwarp();  // what one thread acquired, all have
      left = __any_sync(~0u, waits && !fires) || left;
      for (unsigned ready = __ballot_sync(~0u, fires); ready != 0; ready &= ready - 1) {
        const int index = base + (__ffs(ready) - 1) * step;
        if (thread == 0) note<kTrace>(rank, 2 * rank.pairs + index, &LaneTimes::stores);
        fire(a, rank, rank.triggers[index], me, &s, thread);
        if (thread == 0) note<kTrace>(rank, 2 * rank.pairs + index, &LaneTimes::told);
      }
      if (fires) rank.fired[mine] = me.run + 1;
    }
    if (left) __nanosleep(200);
  }
}

}  // namespace weft
