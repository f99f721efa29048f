// What the simulator says of an op on a GPU that all ranks share, beside what is measured: its H200-like chip
// (clusters/chips/h200-like.json), of which every rank has its part, runs the same plans.
#pragma once

#include <optional>

#include "weft/plan/plan.h"
#include "weft/sim/chip/chip.h"
#include "weft/study/device/device_study.h"

namespace weft {

// One rank's part of a chip: multiprocessors in clusters of two, cache, memory and what moves in it. Its link carries
// what goes to all peers of `plan` at once: over links between each two ranks, or a NIC that all of it shares. Without
// a pace it is memory.
sim::Chip part_of_chip(const sim::Chip& whole, const Plan& plan, const std::optional<Pace>& pace);

struct PredictedPlans {
  const Plan* fused = nullptr;
  const Plan* kept = nullptr;        // the gemm alone; may be null
  const Plan* collective = nullptr;  // may be null
};
// NaN and none where the simulator has no word: over pcie, and of plans that it cannot read.
Measurement::Predicted predict_on_device(const PredictedPlans& plans, const DeviceStudyOptions& options);

}  // namespace weft
