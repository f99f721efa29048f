// Crossings (crossings.h) on a GPU: each is a wait of a queue for the sender's counter, copies to pinned memory of the
// host, copies from there to the receiver, and a write of the receiver's counter. Copy engines do all of it; no
// multiprocessor takes part. (What a rank sends itself is one copy within the device.) A sender has one queue for what
// leaves it and one for what arrives, and all executors share them: more queues than the GPU has connections would wait
// for each other.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "weft/exec/cuda/failure.h"
#include "weft/exec/cuda/lane_table.h"

namespace weft {

class CopyEngines {
 public:
  // `order`: of all crossings; each sender's are made in it. Keeps a reference to the plan.
  CopyEngines(const DevicePlan& device, std::vector<std::byte*> segments, std::vector<int> order);
  ~CopyEngines();
  CopyEngines(const CopyEngines&) = delete;
  CopyEngines& operator=(const CopyEngines&) = delete;

  // The crossings of run `run`, whose kernel has just been enqueued in `queue`. What is enqueued there from now on
  // waits for them. Each waits for its lanes, or, where `by_lanes` is not set, for what stands in the queue.
  void enqueue(std::uint32_t run, void* queue, bool by_lanes = true);
  // Of the same run, before that: this crossing, and those of its sender that come before it.
  void send(int crossing, std::uint32_t run);
  // In the lanes' place: when what stands in `queue` has ended, all of the crossing's have been made.
  void raise(int crossing, std::uint32_t run, void* queue);

  // Every sender's counts (device_counts) from the next run on: rows beyond them stay behind. None: all rows travel.
  void limit(std::vector<std::vector<std::int32_t>> counts);

  // Asked again and again by somebody who waits: a crossing of a run whose kernel has ended, if nothing has moved for
  // that long.
  std::optional<CrossingFailure> stuck(std::chrono::nanoseconds deadline);
  // Lets all of them go on as if their lanes had been made.
  void release();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Waits for what stands in the queue. Kernels end, whatever happens; a queue that waits for a counter may not: then it
// is released, all has ended, and this says which crossing it was. What was computed is void.
std::optional<CrossingFailure> await_copies(CopyEngines& engines, void* queue, std::chrono::nanoseconds deadline);

}  // namespace weft
