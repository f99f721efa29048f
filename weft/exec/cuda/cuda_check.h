// What a failed call of CUDA becomes.
#pragma once

#include <cuda_runtime.h>

#include "weft/base/error.h"

namespace weft {

inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  fail(status == cudaErrorMemoryAllocation ? Code::no_memory : Code::internal, "CUDA could not {}: {}", what,
       cudaGetErrorString(status));
}

}  // namespace weft
