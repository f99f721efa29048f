// Kernels of a virtual GPU (weft/exec/cuda/kernel.h): plain functions, each of whose threads calls them.
#pragma once

#include <cuda_runtime.h>

#include "tests/virtual_gpu/device.h"

namespace weft {

template <typename Arguments>
using Kernel = void (*)(const Arguments&);

template <typename Arguments>
const void* handle_of(Kernel<Arguments> kernel) {
  return reinterpret_cast<const void*>(kernel);
}

void check_launch(cudaError_t status);

template <typename Arguments>
void launch(const cudaLaunchConfig_t& config, Kernel<Arguments> kernel, const Arguments& arguments) {
  check_launch(virtual_gpu::launch(config, [kernel, arguments] { kernel(arguments); }));
}

}  // namespace weft
