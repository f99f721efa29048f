// The plans of a product and its collective for each way (product.h), and what they would cost.
#pragma once

#include <optional>
#include <vector>

#include "weft/plan/plan.h"

#include "python/csrc/product.h"

namespace weft::torch_ops {

struct Plans {
  Plan first;
  std::optional<Plan> second;  // an all_reduce through a window: the gather of the sums
};

// Of this world's ranks. Throws bad_input where the way does not serve the shape.
Plans plans_of(const Shape& shape, Way way, const World& world);

// Rows that torch makes: those of x, or of all ranks where they are gathered before.
std::int64_t rows_made(const Shape& shape, std::int64_t ranks);

// The ways that serve a shape, and the cheapest of them, which says in a sentence what the others would have cost.
std::vector<Way> ways_of(const Shape& shape, std::int64_t ranks, bool window_reaches);
Choice choose_way(const Shape& shape, const World& world, const Rates& rates);

}  // namespace weft::torch_ops
