// One rank's inputs and outputs of a run on a GPU, as pointers into device memory.
#pragma once

#include <cstdint>
#include <span>

namespace weft {

// x (m, k), or of a copy (m, n), and w in the plan's layout, both bf16; bias (n) and residual (as the rank's y) in f32,
// where the plan has them. y: where the output goes, bf16 in rows, of plans that let no other rank write it
// (CudaExecutor::own_output); null: the executor's own memory.
struct CudaOperands {
  const void* x = nullptr;
  const void* w = nullptr;
  const float* bias = nullptr;
  const float* residual = nullptr;
  void* y = nullptr;
};

// Of embedding bags: arrays in device memory of pointers into it, one for each table of the rank (bindings.h). Where
// `rows` says how many each table has, an index beyond them fails the run; null: indices are known to be right.
struct BagOperands {
  const float* const* tables = nullptr;
  const std::int64_t* const* indices = nullptr;
  const std::int64_t* const* offsets = nullptr;
  const std::int64_t* rows = nullptr;
};

// The same with arrays of the host.
struct HostBagOperands {
  std::span<const float* const> tables;
  std::span<const std::int64_t* const> indices, offsets;
  std::span<const std::int64_t> rows;
};

}  // namespace weft
