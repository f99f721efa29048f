// Changes what the parts of a plan are, not how they hang together (tests/mutants does that): types, rows and strides,
// packing, limits, epilogues, operands, bounds, sizes near 2^31 and 2^63, counters. Each kind is a small edit at a
// random place; some leave the plan right, most do not. verify() on one side and the executors on the other decide.
#pragma once

#include <optional>
#include <string_view>

#include "tests/mutants/bases.h"

namespace weft::mutants {

// clang-format off
#define WEFT_VALUE_KINDS(X) \
  X(buffer_dtype) X(weight_dtype) X(producer_kind) X(shape) X(packing_tile) X(packing_block) X(pack) X(limit_kind) \
  X(limit_peer) X(epilogue) X(finish) X(owed_finished) X(addend) X(operand_box) X(operand_buffer) X(operand_sum) \
  X(step_bounds) X(piece_bounds) X(rule_tile) X(producer_size) X(producer_tile) X(columns_of) X(near_2_31) \
  X(near_2_63) X(counter_total) X(wait_at) X(wait_lag) X(lanes_per) X(order) X(depth) X(origin) X(contributors)
// clang-format on

enum class ValueKind {
#define WEFT_ENUMERATE(name) name,
  WEFT_VALUE_KINDS(WEFT_ENUMERATE)
#undef WEFT_ENUMERATE
};

#define WEFT_COUNT(name) +1
inline constexpr int kValueKinds = 0 WEFT_VALUE_KINDS(WEFT_COUNT);
#undef WEFT_COUNT

std::string_view to_string(ValueKind kind);

// A plan as builders write them, small, of any producer and any format on the wire; not written out.
Plan value_base(Random& random);

// Empty where the plan has no place for it.
std::optional<Plan> with_other_value(const Plan& plan, ValueKind kind, Random& random);

}  // namespace weft::mutants
