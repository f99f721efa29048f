// What a failed call of CUDA becomes, and how functions of the driver are found without linking to it.
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

// As CUDA 12.0 and later have it.
template <typename Function>
Function driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check_cuda(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result),
             "find a function of the driver");
  if (found == nullptr) fail(Code::internal, "the driver of the GPU has no {}; update it", name);
  return reinterpret_cast<Function>(found);
}

}  // namespace weft
