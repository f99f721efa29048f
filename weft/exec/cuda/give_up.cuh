// What a wait on the device leaves behind when it has lasted too long: the first to give up writes, once.
#pragma once

#include "weft/exec/cuda/device_lane.h"
#include "weft/exec/cuda/ptx.cuh"

namespace weft {

__device__ __forceinline__ void leave_failure(std::uint32_t* gave_up, DeviceFailure* on_host,
                                              const DeviceFailure& what) {
  if (atomicExch(gave_up, 1u) != 0) return;
  on_host->rank = what.rank, on_host->trigger = what.trigger, on_host->index = what.index, on_host->wait = what.wait;
  on_host->seen = what.seen, on_host->started = what.started;
  on_host->waited_ns = what.waited_ns;
  __threadfence_system();
  *reinterpret_cast<volatile std::uint32_t*>(&on_host->failed) = 1;
}

}  // namespace weft
