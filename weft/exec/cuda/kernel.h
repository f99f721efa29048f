// Kernels as functions of one struct of arguments, and their launch.
#pragma once

#include <cuda_runtime.h>

namespace weft {

template <typename Arguments>
using Kernel = void (*)(Arguments);

// What CUDA calls a kernel by.
template <typename Arguments>
const void* handle_of(Kernel<Arguments> kernel) {
  return reinterpret_cast<const void*>(kernel);
}

// Throws where a launch was refused. (In device.cc: nvcc cannot read what check_cuda says it with.)
void check_launch(cudaError_t status);

// Enqueues it; the arguments may change once this has returned.
template <typename Arguments>
void launch(const cudaLaunchConfig_t& config, Kernel<Arguments> kernel, const Arguments& arguments) {
  void* given[] = {const_cast<Arguments*>(&arguments)};
  check_launch(cudaLaunchKernelExC(&config, handle_of(kernel), given));
}

}  // namespace weft
