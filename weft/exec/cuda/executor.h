// The CUDA executor: all ranks of a plan on one GPU, each on its own multiprocessors, in one cooperative launch per
// run. So all of them are resident, and a wait for a peer ends. The plan is expanded once; a run enqueues a kernel and
// returns. The number of a run is kept on the device: runs follow one another in the GPU's queue without the host, and
// may be launched as a DeviceGraph.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft/exec/bindings.h"
#include "weft/exec/cuda/lane_table.h"
#include "weft/transport/local/pace.h"

namespace weft {

// One rank's inputs in device memory: x (m, k), or of a copy (m, n), and w in the plan's layout, both bf16; bias (n)
// and residual (as the rank's y) in f32, where the plan has them.
struct CudaOperands {
  const void* x = nullptr;
  const void* w = nullptr;
  const float* bias = nullptr;
  const float* residual = nullptr;
};

struct CudaOptions {
  CudaLink link = CudaLink::hbm;
  std::optional<Pace> pace;  // of link hbm; none: ranks store into one another's memory as fast as it takes it
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);  // of every wait on the device
  int clusters_per_rank = 0;                     // at most so many of two multiprocessors each; 0: all that there are
  int turn_rows = kGatheredTurnRows;             // lane_table.h
  void* queue = nullptr;                         // where runs are enqueued; null: device_queue()
  std::int64_t crossing_bytes = kCrossingBytes;  // of link pcie
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

  // Enqueues one run of all ranks; operands must stay as they are until it has ended. Over pcie a run cannot be
  // recorded in a graph: queues wait for the number of the run.
  void start(std::span<const CudaOperands> operands);
  // Rows that count from the next run on (bindings.h), rank by rank; no counts: all rows.
  void limit(std::span<const Counts> counts);
  // The same in device memory, for those who find them there: rows of all, then for each peer. Over pcie all rows
  // travel then, since the host does not know better.
  std::int32_t* counts(int rank);

  // Waits for all runs. Throws deadline, naming rank, peer, tile, seen and expected, where a wait on the device took
  // too long; the executor is of no use then.
  void finish();

  const std::byte* output(int rank) const;  // "y" in device memory, row-major
  std::vector<std::uint32_t> counters(int rank) const;
  const Plan& plan() const;
  const DevicePlan& tables() const;
  int clusters_per_rank() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
