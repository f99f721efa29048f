// Breaks plans. Every mutation is a small edit of the data, made at a random place, with no idea of what
// makes a plan right: some leave it right, most do not. What decides is verify() on one side and the
// adversary on the other.
#pragma once

#include <optional>
#include <string_view>

#include "tests/mutants/bases.h"

namespace weft::mutants {

// X(name): what it does to a plan. clang-format never lays this out the same way twice.
// clang-format off
#define WEFT_MUTATIONS(X) \
  X(drop_signal) X(double_signal) X(retarget_signal) X(drop_data_wait) X(drop_credit_wait) X(lower_lag) \
  X(raise_lag) X(change_at) X(swap_waits) X(rewait) X(swap_source_order) X(exchange_sources) X(drop_source) \
  X(double_source) X(alias_source) X(alias_target) X(shift_piece) X(shift_box) X(drop_target) X(double_target) \
  X(exchange_targets) X(early_signal) X(close_cycle) X(drop_action) X(double_action) X(swap_actions) \
  X(change_depth) X(change_total) X(whole_lanes) X(split_lanes) X(toggle_finish)
// clang-format on

enum class Mutation {
#define WEFT_ENUMERATE(name) name,
  WEFT_MUTATIONS(WEFT_ENUMERATE)
#undef WEFT_ENUMERATE
};

#define WEFT_COUNT(name) +1
inline constexpr int kMutations = 0 WEFT_MUTATIONS(WEFT_COUNT);
#undef WEFT_COUNT

std::string_view to_string(Mutation mutation);

// Empty where the plan has no place for it (no credit to drop, say).
std::optional<Plan> mutated(const Plan& plan, Mutation mutation, Random& random);

}  // namespace weft::mutants
