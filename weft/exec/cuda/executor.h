// The CUDA executor. The plan is expanded once; a run enqueues a kernel and returns. The number of a run is kept on the
// device: runs follow one another in the GPU's queue without the host, and may be launched as a DeviceGraph.
//
// It runs all ranks of a plan on one GPU, each on its own multiprocessors, in one cooperative launch: so all of them
// are resident, and a wait for a peer ends. Or it runs one rank (CudaOptions::rank) of several executors, each with a
// launch of its own, on a GPU of its own or a part of one, in this process or another: their memory is made known by
// connect() before the first run (ranks/peer_memory.h).
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
#include "weft/exec/cuda/ranks/operands.h"
#include "weft/exec/cuda/timeline.h"
#include "weft/transport/local/pace.h"

namespace weft {

struct CudaOptions {
  CudaLink link = CudaLink::hbm;
  std::optional<Pace> pace;  // of link hbm; none: ranks store into one another's memory as fast as it takes it
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);  // of every wait on the device
  int clusters_per_rank = 0;  // at most so many of two multiprocessors each; 0: all that there are
  LaneOrder order = {};       // lane_table.h
  std::optional<int> rank;    // the one that this executor runs; none: all of them
  int launches = 1;           // of executors of one rank: how many share this GPU, which they divide evenly
  void* queue = nullptr;      // where runs are enqueued; null: device_queue()
  bool trace = false;         // lanes leave their times
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

  // Of an executor of one rank, before the first run: where every rank's segment is in this process's addresses.
  void connect(std::span<std::byte* const> segments);
  std::byte* segment(int rank) const;  // of a rank that runs here: what others connect to
  std::int64_t segment_bytes() const;  // of the largest

  // Enqueues one run; operands, of the ranks that run here, must stay as they are until it has ended. Over pcie a run
  // cannot be recorded in a graph: queues wait for the number of the run.
  // Throws deadline where an earlier run is known to have failed.
  void start(std::span<const CudaOperands> operands);
  void start(std::span<const CudaOperands> operands, void* queue);  // in another queue, behind what stands there
  // Rows that count from the next run on (bindings.h), of the ranks that run here; no counts: all rows.
  void limit(std::span<const Counts> counts);
  // The same in device memory, for those who find them there: rows of all (the most that an int holds: all), then for
  // each peer. They count from the next run on, until limit() is called. Over pcie all rows travel, since the host does
  // not know better.
  std::int32_t* counts(int rank);

  // Waits for all runs. Throws deadline, naming rank, peer, tile, seen and expected, where a wait on the device took
  // too long; the executor is of no use then.
  void finish();
  // Lets every wait on the device end at once, for ever after: what runs is void, and the GPU is usable again.
  void abandon();

  double kernel_us();  // over pcie: of the last run, its kernel alone, without the copies behind it; waits

  const std::byte* output(int rank) const;  // "y" in device memory, row-major: the executor's own
  bool own_output() const;                  // whether no rank writes another's: then operands may say where it goes
  std::vector<std::uint32_t> counters(int rank) const;
  DeviceTimes times() const;  // of the last run, when it has ended, of the ranks that run here; CudaOptions::trace
  const Plan& plan() const;
  const DevicePlan& tables() const;
  int clusters_per_rank() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
