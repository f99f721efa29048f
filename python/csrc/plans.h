// The plans of a product and its collective for each way (product.h), and what they would cost.
#pragma once

#include <vector>

#include "weft/plan/plan.h"

#include "python/csrc/product.h"

namespace weft::torch_ops {

// Of this world's ranks. Throws bad_input where the way does not serve the shape.
Plan plan_of(const Shape& shape, Way way, const World& world);

// The same on GPUs, where there is one way: fused.
Plan cuda_plan_of(const Shape& shape, const World& world);

// A fused product.
Producer product_of(const Shape& shape);

// Rows that torch makes: those of x, or of all ranks where they are gathered before.
std::int64_t rows_made(const Shape& shape, std::int64_t ranks);

// The ways that serve a shape, and the cheapest of them, which says in a sentence what the others would have cost.
std::vector<Way> ways_of(const Shape& shape, std::int64_t ranks, bool window_reaches);
Choice choose_way(const Shape& shape, const World& world, const Rates& rates);

}  // namespace weft::torch_ops
