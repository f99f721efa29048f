// Which plans a GPU can run, and where their buffers lie in its memory (lane_table.h).
#pragma once

#include <cstdint>
#include <vector>

#include "weft/exec/cuda/lane_table.h"
#include "weft/exec/layout.h"

namespace weft {

// Throws bad_input, with the remedy, where the CUDA executor cannot run the plan.
void check_device_plan(const Plan& plan);

// Throws bad_input where rows of w, or of y, are no whole pieces of 16 bytes.
void check_device_rows(const Producer& producer);

// One rank's memory; `host` is how the CPU would lay it out.
DeviceLayout device_layout(const Plan& plan, const Layout& host);

// Counters and stamps from `counters` on: they come last.
void place_counters(DeviceLayout* layout);

// What a swizzled image asks for, and more than TMA does.
std::int64_t aligned_bytes(std::int64_t bytes);

}  // namespace weft
