// Embedding bags with their all_to_all on a GPU (bag_table.h): all ranks in one launch, each with its own CTAs, or one
// rank of several executors. A run enqueues a kernel and returns; without a link of copy engines runs may be recorded
// as a DeviceGraph.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft/exec/cuda/ranks/operands.h"
#include "weft/exec/cuda/small/bag_table.h"

namespace weft {

// What sets copies off: the lanes of their crossing, or the end of the kernel, as somebody would do by hand.
enum class Sends { with_lanes, after_kernel };

struct CudaBagOptions {
  CudaLink link = CudaLink::hbm;
  Sends sends = Sends::with_lanes;
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);  // of every crossing
  std::int64_t crossing_bytes = kCrossingBytes;
  std::optional<int> rank;  // as of CudaOptions; of link hbm
  int launches = 1;
};

class CudaBags {
 public:
  // The plan has been verified. Throws bad_input where the kernel cannot run it, or without a GPU.
  CudaBags(const Plan& plan, const CudaBagOptions& options);
  ~CudaBags();
  CudaBags(const CudaBags&) = delete;
  CudaBags& operator=(const CudaBags&) = delete;

  // As of CudaExecutor.
  void connect(std::span<std::byte* const> segments);
  std::byte* segment(int rank) const;
  std::int64_t segment_bytes() const;

  // Enqueues one run; what the operands of the ranks that run here point to must stay as it is until it has ended.
  // Throws deadline where an earlier run is known to have failed. Throws bad_input of an index or offset that an
  // earlier run has refused; this one is enqueued all the same, so that ranks stay in step, and the op stays usable.
  void start(std::span<const BagOperands> operands) { start(operands, nullptr); }
  void start(std::span<const BagOperands> operands, void* queue);  // null: device_queue()
  // The copies of a run alone, of what lies in the outboxes.
  void start_copies();
  // Waits for all runs. Throws deadline where a crossing's lanes, or what other launches owe, did not come; bad_input
  // as above.
  void finish();
  void abandon();  // as of CudaExecutor

  std::byte* output(int rank) const;  // "y" in device memory, f32, row-major
  std::vector<std::uint32_t> counters(int rank) const;
  const BagPlan& tables() const;
  const Plan& plan() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
