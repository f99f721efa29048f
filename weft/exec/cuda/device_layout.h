// Which plans a GPU can run, and where their buffers lie in its memory (lane_table.h).
#pragma once

#include <vector>

#include "weft/exec/cuda/lane_table.h"
#include "weft/exec/layout.h"

namespace weft {

// Throws bad_input, with the remedy, where the CUDA executor cannot run the plan.
void check_device_plan(const Plan& plan);

// One rank's memory; `host` is how the CPU would lay it out.
DeviceLayout device_layout(const Plan& plan, const Layout& host);

}  // namespace weft
