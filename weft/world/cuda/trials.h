// Which way of an op is the fastest on the GPUs that it is for: each is compiled and run a few times, on all ranks of
// the world at once, and what the slowest rank takes counts. So all ranks choose alike. A way that a rank has no memory
// for, or refuses, is not kept.
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
  std::string tried;  // "ring 812.0 us; direct 790.1 us; one_shot refused: ..."
};

// Collective; on the thread's device. `compile` is too, and lets go of ops that have retired before it allots memory:
// so two have some at a time. Operands are random, and of trials alone. Throws bad_input where every way is refused,
// and as CudaOp::finish() on all ranks where a run fails on one.
CudaTrials try_cuda_ways(Transport& transport, const std::vector<CudaWay>& ways, int trials,
                         const std::function<CudaOp(const CudaWay&)>& compile);

}  // namespace weft
