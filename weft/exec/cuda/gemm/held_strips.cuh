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
  // Where its part of a strip begins, in the first 32 bytes of a row. The next 32 are where bits 5 and 6 differ, for
  // that is what swizzling does (strips.cuh).
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

// Of a row in bf16 what it hands to ldmatrix and stmatrix: the row, and 16 of every 32 bytes. In f32 its own 8 of 32.
template <Dtype kSum>
__device__ __forceinline__ Consumer this_consumer(const GemmMemory& s) {
  const int thread = threadIdx.x % 128, group = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128) - 1, 0);
  const int first = group * 64 + thread / 32 * 16, quad = thread % 32;
  const int place = kSum == Dtype::bf16 ? swizzled(first + quad % 16, quad / 16)
                                        : swizzled(first + quad / 4, quad % 4 / 2) + quad % 2 * 8;
  return {__shfl_sync(~0u, shared_address(&s), 0), group, thread, place};
}

inline constexpr int kStrips = kCudaTileCols / kStripCols;
inline constexpr int kWords = kStripCols / 4;  // registers that a thread has of a strip
inline constexpr int kEightRows = 8 * kStripCols * 2;
// Sums are kept and sent as bf16 or as f32: how many halves of a word one is, and how many a thread has of a strip.
template <Dtype kSum>
inline constexpr int kHalvesOf = static_cast<int>(halves_of(kSum));
template <Dtype kSum>
inline constexpr int kSumsOf = 2 * kWords / kHalvesOf<kSum>;

// Strips of a tile are written one every so many blocks of the next, so that stores are spread. In one run, after a
// pause, every second block took 0.2 to 1.7 % less time than every block; every third was like every second.
inline constexpr int kBlocksPerStrip = 2;

// What a thread keeps of a tile beside its products. First its sources, read as they come, in the time of the products:
// of one source all strips; of several, summed in f32, as many as there are registers for: of bf16 the first two.
// Then the rounded sum, whose strips are written in the time of the next tile's products. So the tensor cores rest only
// while sums are added and rounded.
//
// Nobody waits for operands with strips to write: the rows of a product may depend on them, in other CTAs. And a warp
// that writes them must not depend on the others of its group, which may be in the next products already and wait for
// it: so there is a slot for every strip of a sum.
struct Held {
  std::uint32_t words[kStrips * kWords] = {};
  int next = 0, end = 0;            // strips that are yet to be written
  int strip_at = 0, source_at = 0;  // which strip of which source comes next

  __device__ __forceinline__ std::uint32_t* strip(int which) { return words + which * kWords; }
  __device__ __forceinline__ float sum(int j) const { return __uint_as_float(words[j]); }
  __device__ __forceinline__ void set_sum(int j, float value) { words[j] = __float_as_uint(value); }
  // After what needs other registers: the compiler cannot know that these are of no use until then.
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (std::uint32_t& word : words) word = 0;
  }
};
template <Dtype kSum>
inline constexpr int kEarly = kSum == Dtype::bf16 ? kStrips / 2 : kStrips;
static_assert(kSlots >= kStrips);

// A word is two sums in bf16, as ldmatrix and stmatrix have them, or one in f32: of the same rows and columns.
template <Dtype kSum>
__device__ __forceinline__ void read_strip(std::uint32_t slot, const Consumer& me, std::uint32_t* q) {
#pragma unroll
  for (int j = 0; j < kWords; j += 4) {
    const std::uint32_t from = (slot + me.place) ^ (j * 8);
    if constexpr (kSum == Dtype::bf16)
      load_matrices(from, q + j);
    else
      load_two(from, q + j), load_two(from + kEightRows, q + j + 2);
  }
}

template <Dtype kSum>
__device__ __forceinline__ void write_strip(std::uint32_t slot, const Consumer& me, const std::uint32_t* q) {
#pragma unroll
  for (int j = 0; j < kWords; j += 4) {
    const std::uint32_t to = (slot + me.place) ^ (j * 8);
    if constexpr (kSum == Dtype::bf16)
      store_matrices(to, q + j);
    else
      store_two(to, q + j), store_two(to + kEightRows, q + j + 2);
  }
}

template <Dtype kSum, typename Add>
__device__ __forceinline__ void for_each_two(const std::uint32_t* q, Add&& add) {
#pragma unroll
  for (int j = 0; j < kSumsOf<kSum>; j += 2)
    if constexpr (kSum == Dtype::bf16)
      add(j, low_of(q[j / 2]), high_of(q[j / 2]));
    else
      add(j, __uint_as_float(q[j]), __uint_as_float(q[j + 1]));
}

template <Dtype kSum>
__device__ __forceinline__ void round_strip(const float* sums, std::uint32_t* q) {
#pragma unroll
  for (int j = 0; j < kWords; ++j)
    if constexpr (kSum == Dtype::bf16)
      q[j] = pack(sums[2 * j], sums[2 * j + 1]);
    else
      q[j] = __float_as_uint(sums[j]);
}

// Tells the warp that stores of a slot that is written, or has been read. Every thread does: compute-sanitizer's
// racecheck follows mbarriers, and no barrier of a warp or of a group.
__device__ __forceinline__ void tell(GemmMemory& s, Turn<kSlots>* turn) {
  arrive(s.summed + turn->at);
  turn->next();
}

// Writes at most `count` of the strips in hand. Which registers a strip is in must be known when this is compiled: so
// there is code for each, here and below.
template <Dtype kSum>
__device__ __forceinline__ void write_held(GemmMemory& s, const Consumer& me, int count, Held* held,
                                           Turn<kSlots>* slot) {
  const int end = ::min(held->next + count, held->end);
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip) {
    if (strip < held->next || strip >= end) continue;
    wait_barrier(s.loaded + slot->at, slot->parity);
    write_strip<kSum>(shared_address(s.slots[slot->at]), me, held->strip(strip));
    fence_proxies_shared();
    tell(s, slot);
  }
  held->next = end;
}

// Reads the next strip of a source, once it is there.
template <Dtype kSum>
__device__ __forceinline__ void await_strip(GemmMemory& s, const Consumer& me, const Turn<kSlots>& slot,
                                            std::uint32_t* q) {
  wait_barrier(s.loaded + slot.at, slot.parity);
  read_strip<kSum>(shared_address(s.slots[slot.at]), me, q);
}

// Takes the next strip of the one source, or of several.
template <Dtype kSum>
__device__ __forceinline__ void take_one(GemmMemory& s, const Consumer& me, Held* held, Turn<kSlots>* slot) {
#pragma unroll
  for (int strip = 0; strip < kStrips; ++strip)
    if (strip == held->strip_at) await_strip<kSum>(s, me, *slot, held->strip(strip));
  ++held->strip_at;
  tell(s, slot);
}

template <Dtype kSum>
__device__ __forceinline__ void take_several(GemmMemory& s, const Consumer& me, int sources, Held* held,
                                             Turn<kSlots>* slot) {
  constexpr int kSums = kSumsOf<kSum>;
  std::uint32_t q[kWords];
  await_strip<kSum>(s, me, *slot, q);
#pragma unroll
  for (int strip = 0; strip < kEarly<kSum>; ++strip) {
    if (strip != held->strip_at) continue;
    if (held->source_at == 0)
      for_each_two<kSum>(q, [&](int j, float low, float high) {
        held->set_sum(strip * kSums + j, low), held->set_sum(strip * kSums + j + 1, high);
      });
    else
      for_each_two<kSum>(q, [&](int j, float low, float high) {
        const int at = strip * kSums + j;
        held->set_sum(at, held->sum(at) + low), held->set_sum(at + 1, held->sum(at + 1) + high);
      });
  }
  if (++held->source_at == sources) held->source_at = 0, ++held->strip_at;
  tell(s, slot);
}

// How many strips of its sources a tile has in hand before its products are there.
template <Dtype kSum>
__device__ __forceinline__ int strips_in_hand(const Work& work) {
  return work.sources == 0 ? 0 : work.sources == 1 ? work.strips : ::min(work.strips, kEarly<kSum>);
}

}  // namespace weft
