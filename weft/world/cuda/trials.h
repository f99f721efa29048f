// Which way of an op is the fastest on the GPUs that it is for: each is compiled and run a few times, on all ranks of
// the world at once, and what the slowest rank takes counts. So all ranks choose alike.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/world/cuda/cuda_op.h"
#include "weft/world/cuda/cuda_ways.h"

namespace weft {

class Transport;

struct CudaTrials {
  CudaOp fastest;
  std::string tried;  // "ring 812.0 us, direct 790.1 us"; empty: there was no choice
};

// Collective; on the thread's device. At most two ops have memory at a time. Operands are random, and of trials alone.
CudaTrials try_cuda_ways(Transport& transport, const std::vector<CudaWay>& ways, int trials,
                         const std::function<CudaOp(const CudaWay&)>& compile);

}  // namespace weft
