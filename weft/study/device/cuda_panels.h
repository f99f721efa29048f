// The style `panels` on a GPU: the gemm cut by rows, each panel's collective in a second queue beside the next panel's
// gemm, as a careful hand would write it. The collective has a few multiprocessors of its own, the gemm the rest.
#pragma once

#include <memory>
#include <vector>

#include "weft/study/device/cuda_op.h"

namespace weft {

class CudaPanels {
 public:
  // Whether an op is shown in panels: sums, and gathers into a gemm, whose panels have as many rows on every rank.
  static bool fit(const OpSpec& spec, int panels);
  CudaPanels(const OpSpec& spec, const DeviceInputs& inputs, const CudaOptions& link, int panels,
             int clusters);  // of each rank, for the collective

  int count() const { return int_size(steps_); }
  void run();
  Places places() const;

 private:
  struct Step {
    std::vector<DeviceMemory> rows;  // of x, where they are no one stretch of it
    std::vector<CudaOperands> operands;
    std::unique_ptr<CudaExecutor> gemm, collective;
  };
  void add(const DeviceInputs& inputs, const CudaOptions& link, int panel, int panels, int clusters);

  OpSpec spec_;
  DeviceQueue beside_;
  std::vector<Step> steps_;
};

}  // namespace weft
