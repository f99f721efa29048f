#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/collective/build.h"
#include "weft/collective/draft.h"
#include "weft/plan/plans_test.h"
#include "weft/plan/price/traffic.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using testing_plans::small_gemm;
using testing_plans::space_of;

Plan on_torus(const Producer& p, int rows, int columns) {
  Space space = space_of(rows * columns, SpaceKind::all_reduce);
  space.options.torus = {rows, columns};
  return build_all_reduce(p, space, Route::torus);
}

TEST(Torus, IsProvedForRowsAndColumns) {
  for (const auto& [rows, columns] : std::vector<std::pair<int, int>>{{2, 2}, {2, 3}, {3, 2}, {4, 2}, {4, 4}, {3, 5}})
    for (const std::int64_t each : {1, 3, 8}) {
      const int ranks = rows * columns;
      const Plan plan = on_torus(small_gemm(each * ranks, 20, 5, ranks, true), rows, columns);
      const Verdict verdict = verify(plan);
      EXPECT_TRUE(verdict.ok()) << rows << " x " << columns << ": " << (verdict.ok() ? "" : verdict.problems[0]);
      EXPECT_EQ(plan.sum, Sum::any);
    }
}

TEST(Torus, MovesTheBytesOfARingToNeighboursAlone) {
  const Producer p = small_gemm(48, 16, 5, 12);
  const Plan plan = on_torus(p, 4, 3), ring = build_all_reduce(p, space_of(12, SpaceKind::all_reduce), Route::ring);
  EXPECT_EQ(traffic(plan).total.bytes_to_peers, traffic(ring).total.bytes_to_peers);
  const Expander expander(plan);
  for (int rank = 0; rank < 12; ++rank) {
    const Program program = expander.program(rank);
    std::int64_t made = 0;
    for (const Action& action : program.actions) {
      if (action.kind == ActionKind::step) made += action.box.size(0);
      for (const Piece& target : program.targets(action)) {
        const bool right = target.rank == rank / 3 * 3 + (rank + 1) % 3, down = target.rank == (rank + 3) % 12;
        EXPECT_TRUE(target.rank == rank || right || down) << rank << " to " << target.rank;
      }
    }
    EXPECT_EQ(made, 48);  // each tile once
  }
}

TEST(Torus, AProofNoticesWhatIsLost) {
  const Plan plan = on_torus(small_gemm(36, 16, 5, 12), 4, 3);
  for (const char* name : {"rows", "columns", "gather_rows", "gather_columns"}) {
    Plan early = plan;  // does not wait for what comes
    for (Rule& rule : early.rules)
      if (rule.name == name) rule.waits.erase(rule.waits.begin());
    EXPECT_FALSE(verify(early).ok()) << name;
  }
  Plan twice = plan;
  for (Rule& rule : twice.rules)
    if (rule.name == "columns") rule.targets[0].rank = Expr::parse("(r + 1) % N");
  EXPECT_FALSE(verify(twice).ok());
}

TEST(Torus, IsBuiltWhereItIsAskedFor) {
  Space space = space_of(8, SpaceKind::all_reduce);
  space.options.route = Route::torus;
  const Plan plan = build(gemm({.m = 32, .n = 16, .k = 4}), space);
  EXPECT_EQ(plan.route, Route::torus);
  EXPECT_EQ(torus_of(space), (std::vector<int>{4, 2}));
  EXPECT_EQ(to_json(parse_plan(to_json(plan), "text")), to_json(plan));
  const auto says = [&](auto&& change, std::int64_t m) {
    Space other = space;
    change(&other);
    return refusal([&] { build(gemm({.m = m, .n = 16, .k = 4}), other); });
  };
  EXPECT_NE(says([](Space* s) { s->options.torus = {8, 1}; }, 32).find("8 ranks are on 8 x 1"), std::string::npos);
  EXPECT_NE(says(
                [](Space* s) {
                  s->options.torus = {2, 2, 2};
                },
                32)
                .find("a torus of 3 dimensions"),
            std::string::npos);
  EXPECT_NE(says([](Space*) {}, 33).find("1 are left over; use 40 rows"), std::string::npos);
  EXPECT_NE(says([](Space* s) { s->options.slices = 4; }, 32).find("not made in slices"), std::string::npos);
  EXPECT_NE(says([](Space* s) { s->options.wire = Dtype::bf16; }, 32).find("sends f32"), std::string::npos);
}

}  // namespace
}  // namespace weft
