// The CUDA executor: all ranks of a plan on one GPU, each on its own multiprocessors, in one cooperative launch per
// run. So all of them are resident, and a wait for a peer ends. The plan is expanded once; a run enqueues a kernel and
// returns. Runs follow one another in the GPU's queue without the host.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft/exec/cuda/lane_table.h"
#include "weft/transport/local/pace.h"

namespace weft {

// One rank's inputs in device memory: x (m, k) and w in the plan's layout, both bf16.
struct CudaOperands {
  const void* x = nullptr;
  const void* w = nullptr;
};

struct CudaOptions {
  std::optional<Pace> pace;  // none: ranks store into one another's memory as fast as it takes it ("hbm")
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);  // of every wait on the device
};

class CudaExecutor {
 public:
  // The plan has been verified. Throws bad_input where a GPU cannot run it, or where there is none.
  CudaExecutor(const Plan& plan, const CudaOptions& options);
  // The same with tables of the caller's, as they are: whether they end is not looked at.
  CudaExecutor(const Plan& plan, DevicePlan tables, const CudaOptions& options);
  ~CudaExecutor();
  CudaExecutor(const CudaExecutor&) = delete;
  CudaExecutor& operator=(const CudaExecutor&) = delete;

  // Enqueues one run of all ranks; operands must stay as they are until it has ended.
  void start(std::span<const CudaOperands> operands);
  // Waits for all runs. Throws deadline, naming rank, peer, tile, seen and expected, where a wait on the device took
  // too long; the executor is of no use then.
  void finish();

  const std::byte* output(int rank) const;  // "y" in device memory, row-major
  std::vector<std::uint32_t> counters(int rank) const;
  const DevicePlan& tables() const;
  int clusters_per_rank() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
