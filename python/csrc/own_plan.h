// Collectives of the user's own: a plan as text (docs/plan.md), read, proved and compiled when it first comes, then run
// like any other op. A rank that gives another text than its peers is told so while compiling.
#pragma once

#include <optional>
#include <string>

#include "python/csrc/torch_tensor.h"
#include "python/csrc/worlds.h"

namespace weft::torch_ops {

// Collective. What the plan owes this rank, in its one output. x and w as its one producer says: (m, k) and w of a
// product, (m, n) of a copy.
Tensor run_plan(Group& group, const std::string& text, const Tensor& x, const std::optional<Tensor>& w);

}  // namespace weft::torch_ops
