// Side by side at equal memory.
#include "weft/schedule/compare.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

namespace weft::pipeline {
namespace {

const ComparedKind& row_of(const std::vector<ComparedKind>& rows, Kind kind) {
  for (const ComparedKind& row : rows)
    if (row.kind == kind) return row;
  return rows.front();
}

TEST(Compare, NoKindExceedsTheMemory) {
  const Costs costs = uniform_costs({.stages = 4, .forward_s = 1, .backward_s = 2, .transfer_s = 1});
  for (const int memory : {1, 2, 4, 6, 40}) {
    for (const ComparedKind& row : compare_kinds(costs, {.stages = 4, .micro_batches = 16, .memory = memory})) {
      ASSERT_TRUE(row.free && row.within) << to_string(row.kind) << ": " << row.why;
      EXPECT_LE(row.within->verdict.peak(), memory) << to_string(row.kind);
      EXPECT_EQ(row.free->verdict.peak() <= memory, row.within->schedule == row.free->schedule) << to_string(row.kind);
      EXPECT_EQ(row.within->schedule.num_micro_batches, 16 * row.cut);
    }
  }
}

// Within the memory of 1f1b, eager_1f1b has half as large micro-batches, and still hides what 1f1b exposes.
TEST(Compare, EagerWinsAtEqualMemoryByCutting) {
  const Costs costs = uniform_costs({.stages = 4, .forward_s = 1, .backward_s = 2, .transfer_s = 1});
  const auto rows = compare_kinds(costs, {.stages = 4, .micro_batches = 16});
  const ComparedKind &plain = row_of(rows, Kind::one_f_one_b), &eager = row_of(rows, Kind::eager_1f1b);
  EXPECT_EQ(plain.cut, 1);
  EXPECT_EQ(eager.cut, 2);
  EXPECT_EQ(eager.within->verdict.peak(), 3.5);
  EXPECT_LT(eager.within->timing.makespan_s, plain.within->timing.makespan_s);
  EXPECT_DOUBLE_EQ(eager.within->timing.busy_s[0], plain.within->timing.busy_s[0]);  // the same work
}

TEST(Compare, SaysWhyAKindIsMissing) {
  const Costs costs = uniform_costs({.stages = 4});
  const ComparedKind row = row_of(compare_kinds(costs, {.stages = 4, .micro_batches = 6}), Kind::interleaved_1f1b);
  EXPECT_FALSE(row.free || row.within);
  EXPECT_NE(row.why.find("6 is no multiple"), std::string::npos);
  EXPECT_NE(refusal([&] { compare_kinds(costs, {.stages = 5}); }).find("costs of 4 stages"), std::string::npos);
}

}  // namespace
}  // namespace weft::pipeline
