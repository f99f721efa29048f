// Plans of few rows on a GPU (gemv_table.h): all ranks in one launch, each on its own multiprocessors, or one rank of
// several executors. As the CUDA executor, a run enqueues a kernel and returns, the number of a run is on the device,
// and runs may be recorded as a DeviceGraph.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "weft/exec/cuda/ranks/operands.h"
#include "weft/exec/cuda/small/gemv_table.h"

namespace weft {

enum class Launch { after, dependent };  // dependent: begins to read weights while the kernel before still runs

struct CudaGemvOptions {
  Launch launch = Launch::after;
  std::optional<int> rank;  // as of CudaOptions
  int launches = 1;
  std::chrono::nanoseconds deadline = std::chrono::seconds(10);  // of every wait on the device
};

class CudaGemv {
 public:
  // The plan has been verified. Throws bad_input where the kernel cannot run it, or where there is no GPU.
  CudaGemv(const Plan& plan, const CudaGemvOptions& options);
  // The same with tables of the caller's, as they are.
  CudaGemv(const Plan& plan, GemvPlan tables, const CudaGemvOptions& options);
  ~CudaGemv();
  CudaGemv(const CudaGemv&) = delete;
  CudaGemv& operator=(const CudaGemv&) = delete;

  // As of CudaExecutor.
  void connect(std::span<std::byte* const> segments);
  std::byte* segment(int rank) const;
  std::int64_t segment_bytes() const;

  // Enqueues one run; operands (x, w and y alone) of the ranks that run here must stay as they are until it has
  // ended.
  void start(std::span<const CudaOperands> operands) { start(operands, nullptr); }
  void start(std::span<const CudaOperands> operands, void* queue);  // null: device_queue()
  // Waits for all runs. Throws deadline, naming rank, peer, tile and run, where a wait on the device took too long; the
  // executor is of no use then.
  void finish();
  void abandon();  // as of CudaExecutor

  std::byte* output(int rank) const;  // "y" in device memory, bf16, row-major
  const GemvPlan& tables() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
