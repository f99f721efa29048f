// One rank's inputs and outputs of a run on a GPU, as pointers into device memory.
#pragma once

#include <cstdint>
#include <span>

#include "weft/base/dtype.h"

namespace weft {

// x (m, k) and w in the plan's layout, both bf16, or of a copy x (m, n) as y is; bias (n) and residual (as the rank's
// y), where the plan has them, each in f32 or bf16. y: where the output goes, in rows, of plans that let no other rank
// write it (CudaExecutor::own_output); null: the executor's own memory.
struct CudaOperands {
  const void* x = nullptr;
  const void* w = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* y = nullptr;
  Dtype bias_type = Dtype::f32, residual_type = Dtype::f32;
};

// Of embedding bags, one table of a rank: its rows, in f32; the indices of all samples, one after the other; where each
// sample's begin, one more than there are samples. Where the numbers of rows and indices are given, a run reads nothing
// beyond them, and is told of as bad input if it should have (CudaBags::start); -1: all are known to be right.
struct CudaTable {
  const float* rows = nullptr;
  const std::int64_t* indices = nullptr;
  const std::int64_t* offsets = nullptr;
  std::int64_t num_rows = -1, num_indices = -1;
};
inline constexpr int kMaxCudaTables = 256;  // of the ranks of one launch

struct BagOperands {
  std::span<const CudaTable> tables;  // of the rank
};

}  // namespace weft
