// What a lane of the kernel (fused_gemm.cuh) waits for, raises, and has to do in this run.
#pragma once

#include "weft/exec/cuda/gemm/fused_gemm.h"
#include "weft/exec/cuda/give_up.cuh"
#include "weft/exec/cuda/ptx.cuh"

namespace weft {

// Whose part of the work a CTA does.
struct Seat {
  int rank, slot;  // of the rank's clusters
  std::uint32_t cta;
  std::uint32_t run;
  const std::int32_t* counts;  // rows that count in this run, in shared memory: of all, then for each peer
};

// Rows of a tile that count in this run.
__device__ __forceinline__ int live_rows(const Seat& me, const DeviceLane& lane) {
  if (lane.limit < 0) return lane.rows;
  return ::min(lane.rows, ::max(0, me.counts[lane.limit] - lane.limit_from));
}

// What a lane comes to in this run. One without rows may go round as an empty strip.
//
// Its slots, in order: every source of the first strip, of the second, ...; then, where there is a product, an empty
// one for each strip of the sum. Of sources alone the sum takes the place of a strip's last.
struct Work {
  int rows, strips, sources;
  bool multiplies;  // the two CTAs of a cluster share what they load: both or neither

  __device__ __forceinline__ int empty_slots() const { return multiplies || sources == 0 ? strips : 0; }
  __device__ __forceinline__ int slots() const { return strips * sources + empty_slots(); }
  __device__ __forceinline__ bool holds_sum(int slot) const {
    return multiplies ? slot >= strips * sources : sources == 0 || slot % sources == sources - 1;
  }
};
__device__ __forceinline__ DeviceWork load_work(const DeviceRank& rank, int index) {
  const uint4 loaded = __ldg(reinterpret_cast<const uint4*>(rank.works + index));
  return *reinterpret_cast<const DeviceWork*>(&loaded);
}
// The same for a whole warp, in two halves, between which there is time for the load: a fourth for each thread. If all
// threads loaded the same, the compiler would wait for it at once, to keep it in uniform registers.
__device__ __forceinline__ std::uint32_t begin_load_work(const DeviceRank& rank, int index) {
  return __ldg(reinterpret_cast<const std::uint32_t*>(rank.works + index) + threadIdx.x % 4);
}
__device__ __forceinline__ DeviceWork end_load_work(std::uint32_t part) {
  const uint4 loaded{__shfl_sync(~0u, part, 0), __shfl_sync(~0u, part, 1), __shfl_sync(~0u, part, 2),
                     __shfl_sync(~0u, part, 3)};
  return *reinterpret_cast<const DeviceWork*>(&loaded);
}
__device__ __forceinline__ Work work_of(const Seat& me, const DeviceWork& lane) {
  const int own = lane.limit < 0 ? INT32_MAX : me.counts[lane.limit] - lane.limit_from;
  const int other = lane.pair_limit < 0 ? INT32_MAX : me.counts[lane.pair_limit] - lane.pair_from;
  const int rows = ::min(int{lane.rows}, ::max(0, own));
  const bool multiplies = lane.product != 0 && (own > 0 || other > 0);
  if (rows > 0) return {rows, (lane.cols + kStripCols - 1) / kStripCols, lane.sources, multiplies};
  return {0, (lane.does & kTells) != 0 ? 1 : 0, 0, multiplies};
}

__device__ __forceinline__ std::uint8_t* image_at(const DeviceRank& rank, const DevicePlace& place, std::uint32_t run) {
  return rank.segment + place.offset + (place.depth > 1 ? run % place.depth * place.copy_bytes : 0);
}

__device__ __forceinline__ bool is_met(const DeviceArguments& a, const DeviceRank& rank, const DeviceWait& wait,
                                       std::uint32_t run, std::uint32_t* seen) {
  if (run < static_cast<std::uint32_t>(wait.lag)) return true;
  const std::uint32_t need = (run - wait.lag) * wait.total + wait.at;
  *seen = load_acquire(rank.counters + wait.counter);
  if (static_cast<std::int32_t>(*seen - need) < 0) return false;
  // The stamp was raised before the counter was, and the counter acquired.
  return a.ns_per_byte == 0 || global_ns() >= load_relaxed(rank.stamps + wait.counter);
}

// Whether a kernel has the code of traced runs: asking in each run took 0.5 to 1 % of its time at k 1024.
enum class Trace { no, yes };

// One thread of those that do something for a lane writes down when.
template <Trace kTrace>
__device__ __forceinline__ void note(const DeviceRank& rank, int index, std::uint64_t LaneTimes::*what) {
  if constexpr (kTrace == Trace::yes) rank.times[index].*what = global_ns();
}

struct Waiter {
  int rank, trigger, index, wait;
};

__device__ __noinline__ inline void give_up(const DeviceArguments& a, const Waiter& who, const DeviceWait& wait,
                                            std::uint32_t run, std::uint32_t seen, unsigned long long waited) {
  leave_failure(a.gave_up, a.failure,
                {0, who.rank, who.trigger, who.index, who.wait, seen, (run - wait.lag) * wait.total, waited});
}

__device__ __forceinline__ void await(const DeviceArguments& a, const DeviceRank& rank, const DeviceWait& wait,
                                      std::uint32_t run, const Waiter& who) {
  std::uint32_t seen = 0;
  if (is_met(a, rank, wait, run, &seen)) return;
  const unsigned long long begin = global_ns();
  while (!is_met(a, rank, wait, run, &seen)) {
    const unsigned long long waited = global_ns() - begin;
    if (waited > a.deadline_ns) return give_up(a, who, wait, run, seen, waited);
    if (waited > 100000 && load_acquire(a.gave_up) != 0) return;
  }
}

// Takes the next free time of a link from `begin` on: when that time has passed. A clock that is behind is brought
// up first, and what others add meanwhile only moves it on: so there is nothing to try again. (A loop of
// compare-and-swap managed one signal per microsecond and link, and held up the gemm.)
__device__ __forceinline__ unsigned long long take_link(unsigned long long* clock, unsigned long long begin,
                                                        unsigned long long took) {
  atomicMax_system(clock, begin);
  return atomicAdd_system(clock, took) + took;
}

// When bytes have passed from one host to another. Of shared NICs they take that of the sender, then, from when they
// begin to leave, that of the receiver: in the order in which signals are raised, where CPUs take those that arrive
// first (pace.h). So bytes may wait behind others that are not on their way yet: late, never early.
__device__ __forceinline__ unsigned long long pass_link(const DeviceArguments& a, int from, int to, int bytes) {
  const auto took = static_cast<unsigned long long>(static_cast<float>(bytes) * a.ns_per_byte + 0.5f);
  const unsigned long long now = global_ns();
  if (a.shares_nics == 0) return take_link(a.links + from * kMaxCudaRanks + to, now, took);
  if (bytes == 0) return now;
  const unsigned long long left = take_link(a.links + from, now, took);
  return take_link(a.links + kMaxCudaRanks + to, left - took, took);
}

// What a signal covers where `rows` of a lane's count.
__device__ __forceinline__ int live_bytes(const DeviceSignal& signal, int rows, int of) {
  return signal.bytes == 0 || rows == of ? signal.bytes : signal.bytes / of * rows;
}

__device__ __forceinline__ void raise(const DeviceArguments& a, int from, const DeviceSignal& signal, int bytes) {
  const DeviceRank& to = a.ranks[signal.rank];
  const int host = from / a.ranks_per_host, other = signal.rank / a.ranks_per_host;
  if (a.ns_per_byte > 0 && host != other) {
    const unsigned long long due = pass_link(a, host, other, bytes) + static_cast<unsigned long long>(a.latency_ns);
    atomicMax_system(to.stamps + signal.counter, due);
  }
  add_release(to.counters + signal.counter, 1);
}

}  // namespace weft
