// Unmodified cuBLASLt as the producer of an op that only stores, over pcie: rank after rank on all multiprocessors, in
// panels that copy engines take on (tracked_rows.h). Each height of a panel has an algorithm of its own.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "weft/exec/cuda/window/tracked_rows.h"
#include "weft/study/device/cublaslt.h"
#include "weft/study/device/cuda_op.h"

namespace weft {

class CudaTracked {
 public:
  // Throws bad_input where the op is more than stores of whole rows.
  CudaTracked(const OpSpec& spec, const DeviceInputs& inputs, int panels);

  void run();
  Places places() const;

 private:
  std::int64_t n_, row_bytes_;  // of x
  std::vector<CudaOperands> operands_;
  TrackedRows rows_;
  std::map<std::int64_t, CublasLtGemm> gemms_;  // by rows
};

}  // namespace weft
