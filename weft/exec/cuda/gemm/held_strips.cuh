// What a thread of the multiplying warpgroups has of a tile beside its products (make_tiles.cuh): strips of its sources
// and of its sum, between shared memory and registers.
#pragma once

#include <cstddef>

#include "weft/exec/cuda/gemm/shared_memory.cuh"
#include "weft/exec/cuda/gemm/strips.cuh"

namespace weft {

// A thread's part of a tile. What all threads of its warp have in common is told to the compiler as such: what it
// cannot prove uniform it keeps out of uniform registers, and with that the descriptors of the products (4 % at
// k 4096).
struct Consumer {
  std::uint32_t memory;  // address of the GemmMemory: asked for again in every block, it would be in every block's way
  int group, thread;
  // What it hands to ldmatrix and stmatrix: its row of a strip, of that the first 16 bytes of its half of every 32. The
  // next 32 are where bits 5 and 6 differ, for that is what swizzling does (strips.cuh).
  int place;

  __device__ __forceinline__ std::uint32_t full(int stage) const {
    return memory + offsetof(GemmMemory, full) + stage * sizeof(std::uint64_t);
  }
  __device__ __forceinline__ std::uint32_t empty(int stage) const {
    return memory + offsetof(GemmMemory, empty) + stage * sizeof(std::uint64_t);
  }
  __device__ __forceinline__ std::uint32_t loaded(int slot) const {
    return memory + offsetof(GemmMemory, loaded) + slot * sizeof(std::uint64_t);
  }
  __device__ __forceinline__ std::uint32_t x(int stage) const {
    return memory + stage * (kXBytes + kWBytes) + group * (kXBytes / 2);
  }
  __device__ __forceinline__ std::uint32_t w(int stage) const { return memory + stage * (kXBytes + kWBytes) + kXBytes; }
};
static_assert(offsetof(GemmMemory, stages) == 0);

__device__ __forceinline__ Consumer this_consumer(const GemmMemory& s) {
  const int thread = threadIdx.x % 128, group = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128) - 1, 0);
  const int row = group * 64 + thread / 32 * 16 + thread % 16;
  return {__shfl_sync(~0u, shared_address(&s), 0), group, thread, swizzled(row, thread % 32 >> 4)};
}

inline constexpr int kStrips = kCudaTileCols / kStripCols;
inline constexpr int kMatrices = kStripCols / 16;  // groups of four that a warp has of a strip
inline constexpr int kSums = kStripCols / 2;       // sums that a thread has of a strip
inline constexpr int kPairs = kSums / 2;           // registers of two bf16, as ldmatrix and stmatrix have them

// Strips of a tile are written one every so many blocks of the next, so that stores are spread. In one run, after a
// pause, every second block took 0.2 to 1.7 % less time than every block; every third was like every second.
inline constexpr int kBlocksPerStrip = 2;

// What a thread keeps of a tile beside its products. First its sources, read as they come, in the time of the products:
// of one source all strips; of several, summed in f32, the first two (kEarly), for there are no registers for more.
// Then the rounded sum, whose strips are written in the time of the next tile's products. So the tensor cores rest only
// while sums are added and rounded.
//
// Nobody waits for operands with strips to write: the rows of a product may depend on them, in other CTAs. And a warp
// that writes them must not depend on the others of its group, which may be in the next products already and wait for
// it: so there is a slot for every strip of a sum.
struct Held {
  std::uint32_t pairs[kStrips * kPairs] = {};
  int next = 0, end = 0;            // strips that are yet to be written
  int strip_at = 0, source_at = 0;  // which strip of which source comes next

  __device__ __forceinline__ std::uint32_t* strip(int which) { return pairs + which * kPairs; }
  __device__ __forceinline__ float sum(int j) const { return __uint_as_float(pairs[j]); }
  __device__ __forceinline__ void set_sum(int j, float value) { pairs[j] = __float_as_uint(value); }
  // After what needs other registers: the compiler cannot know that these are of no use until then.
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (std::uint32_t& pair : pairs) pair = 0;
  }
};
inline constexpr int kEarly = kStrips / 2;
static_assert(kSlots >= kStrips);

__device__ __forceinline__ void read_strip(std::uint32_t slot, const Consumer& me, std::uint32_t* q) {
#pragma unroll
  for (int j = 0; j < kMatrices; ++j) load_matrices((slot + me.place) ^ (j * 32), q + j * 4);
}

__device__ __forceinline__ void write_strip(std::uint32_t slot, const Consumer& me, const std::uint32_t* q) {
#pragma unroll
  for (int j = 0; j < kMatrices; ++j) store_matrices((slot + me.place) ^ (j * 32), q + j * 4);
}

template <typename Add>
__device__ __forceinline__ void for_each_pair(const std::uint32_t* q, Add&& add) {
#pragma unroll
  for (int j = 0; j < kPairs; ++j) add(2 * j, low_of(q[j]), high_of(q[j]));
}

__device__ __forceinline__ void round_strip(const float* sums, std::uint32_t* q) {
#pragma unroll
  for (int j = 0; j < kPairs; ++j) q[j] = pack(sums[2 * j], sums[2 * j + 1]);
}

// Tells the warp that stores of a slot that is written, or has been read. Every thread does: compute-sanitizer's
// racecheck follows mbarriers, and no barrier of a warp or of a group.
__device__ __forceinline__ void tell(GemmMemory& s, Turn<kSlots>* turn) {
  arrive(s.summed + turn->at);
  turn->next();
}

// Writes at most `count` of the strips in hand. Which registers a strip is in must be known when this is compiled: so
// there is code for each, here and below.
__device__ __forceinline__ void write_held(GemmMemory& s, const Consumer& me, int count, Held* held,
                                           Turn<kSlots>* slot) {
  const int end = ::min(held->next + count, held->end);
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    if (strip < held->next || strip >= end) continue;
    wait_barrier(s.loaded + slot->at, slot->parity);
    write_strip(shared_address(s.slots[slot->at]), me, held->strip(strip));
    fence_proxies_shared();
    tell(s, slot);
  }
  held->next = end;
}

// Reads the next strip of a source, once it is there.
__device__ __forceinline__ void await_strip(GemmMemory& s, const Consumer& me, const Turn<kSlots>& slot,
                                            std::uint32_t* q) {
  wait_barrier(s.loaded + slot.at, slot.parity);
  read_strip(shared_address(s.slots[slot.at]), me, q);
}

// Takes the next strip of the one source, or of several.
__device__ __forceinline__ void take_one(GemmMemory& s, const Consumer& me, Held* held, Turn<kSlots>* slot) {
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip)
    if (strip == held->strip_at) await_strip(s, me, *slot, held->strip(strip));
  ++held->strip_at;
  tell(s, slot);
}

__device__ __forceinline__ void take_several(GemmMemory& s, const Consumer& me, int sources, Held* held,
                                             Turn<kSlots>* slot) {
  std::uint32_t q[kPairs];
  await_strip(s, me, *slot, q);
#pragma unroll
  for (int strip = 0; strip < kEarly; ++strip) {
    if (strip != held->strip_at) continue;
    if (held->source_at == 0)
      for_each_pair(q, [&](int j, float low, float high) {
        held->set_sum(strip * kSums + j, low), held->set_sum(strip * kSums + j + 1, high);
      });
    else
      for_each_pair(q, [&](int j, float low, float high) {
        const int at = strip * kSums + j;
        held->set_sum(at, held->sum(at) + low), held->set_sum(at + 1, held->sum(at + 1) + high);
      });
  }
  if (++held->source_at == sources) held->source_at = 0, ++held->strip_at;
  tell(s, slot);
}

// How many strips of its sources a tile has in hand before its products are there.
__device__ __forceinline__ int strips_in_hand(const Work& work) {
  return work.sources == 0 ? 0 : work.sources == 1 ? work.strips : ::min(work.strips, kEarly);
}

}  // namespace weft
