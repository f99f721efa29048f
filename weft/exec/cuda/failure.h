// The sentence that a wait on a device becomes when it has lasted too long (DeviceFailure). The kernel goes on as if
// the wait had been met, with whatever is in memory: so it ends, the GPU stays usable, and the run is void.
#pragma once

#include <cstdint>
#include <string>

#include "weft/exec/cuda/lane_table.h"
#include "weft/plan/program.h"

namespace weft {

// "rank 3 waited 10.0 s for full[12] from rank 2 in step 3 of rank 3 (ring, s = 1), tile 5 [0:128, 256:512]: saw 0 of 1
// updates".
std::string describe(const Plan& plan, const Expander& expander, const DevicePlan& device,
                     const DeviceFailure& failure);

// The same of a crossing whose lanes were not all made: "rank 2 waited 10.0 s to send crossing 5 to rank 3, of step 0
// of rank 2 (ring, s = 0): saw 7 of 8 tiles".
struct CrossingFailure {
  int index = 0;
  std::uint32_t seen = 0, started = 0;  // values of its counter
  std::uint64_t waited_ns = 0;
};
std::string describe_crossing(const Plan& plan, const Expander& expander, const DevicePlan& device,
                              const CrossingFailure& failure);

}  // namespace weft
