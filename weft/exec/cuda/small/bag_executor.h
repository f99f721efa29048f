// Embedding bags with their all_to_all on a GPU (bag_table.h): all ranks in one launch, each with its own CTAs. A run
// enqueues a kernel and returns; without a link of copy engines runs may be recorded as a DeviceGraph.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/exec/cuda/small/bag_table.h"

namespace weft {

// One rank's inputs: arrays in device memory of pointers into it, one for each of its tables (bindings.h).
struct BagOperands {
  const float* const* tables = nullptr;
  const std::int64_t* const* indices = nullptr;
  const std::int64_t* const* offsets = nullptr;
};

// What sets copies off: the lanes of their crossing, or the end of the kernel, as somebody would do by hand.
enum class Sends { with_lanes, after_kernel };

struct CudaBagOptions {
  CudaLink link = CudaLink::hbm;
  Sends sends = Sends::with_lanes;
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);  // of every crossing
  std::int64_t crossing_bytes = kCrossingBytes;
};

class CudaBags {
 public:
  // The plan has been verified, and so have indices. Throws bad_input where the kernel cannot run it, or without a GPU.
  CudaBags(const Plan& plan, const CudaBagOptions& options);
  ~CudaBags();
  CudaBags(const CudaBags&) = delete;
  CudaBags& operator=(const CudaBags&) = delete;

  // Enqueues one run of all ranks; operands must stay as they are until it has ended.
  void start(std::span<const BagOperands> operands);
  // The copies of a run alone, of what lies in the outboxes.
  void start_copies();
  // Waits for all runs. Throws deadline where a crossing's lanes did not come.
  void finish();

  std::byte* output(int rank) const;  // "y" in device memory, f32, row-major
  std::vector<std::uint32_t> counters(int rank) const;
  const BagPlan& tables() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
