// The strongest opponents of the fused op, found by trying: its collective by the fastest of its routes, and the op in
// the fastest number of panels; and what each style is predicted to take. Contests and parts of a ledger share both.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "weft/study/clock.h"
#include "weft/study/op_spec.h"
#include "weft/study/panels.h"
#include "weft/world/op.h"
#include "weft/world/style.h"

namespace weft {

class World;

struct FastestCollective {
  std::unique_ptr<Op> op;
  double us = 0;  // its best turn, on the slowest rank
};

// Collective, both. `x` is what a rank puts into the collective of the op alone.
FastestCollective fastest_collective(World& world, CommonClock& clock, const OpSpec& op, const float* x);
// Null where the op fits no panels. The panels keep a reference to the spec; `next` gives the inputs of every turn.
std::unique_ptr<Panels> fastest_panels(World& world, CommonClock& clock, const OpSpec& op, const MakerOf& maker,
                                       const std::function<Inputs()>& next);

// The product of one matrix of weights as the fastest library makes it, where that is faster than Weft's own.
struct FasterProduct {
  Make make;         // empty: Weft's own is the fastest there is
  std::string name;  // "weft", "onednn", "openblas"
};
// Collective. `own` makes the same by Weft; one thread.
FasterProduct faster_product(CommonClock& clock, const Producer& producer, const Inputs& inputs,
                             const std::function<void()>& own);

// What an op in each style is predicted from.
struct StyledOp {
  double compute_s = 0;              // its producer alone
  const Plan* collective = nullptr;  // alone, by its route
  const Plan* fused = nullptr;
  const Panels* panels = nullptr;  // none: panels are taken for sequential
};
// Of a run in that style, on that cluster.
double predicted_seconds(Style style, const StyledOp& op, const Cluster& cluster, const EstimateHint& hint = {});

}  // namespace weft
