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

Plan halving(const Producer& p, int ranks) {
  return build_all_reduce(p, space_of(ranks, SpaceKind::all_reduce), Route::halving_doubling);
}

TEST(HalvingDoubling, IsProvedForPowersOfTwo) {
  for (const int ranks : {2, 4, 8, 16, 32})
    for (const std::int64_t rows : {1, 3, 8}) {
      const Plan plan = halving(small_gemm(rows * ranks, 20, 5, ranks, true), ranks);
      const Verdict verdict = verify(plan);
      EXPECT_TRUE(verdict.ok()) << ranks << " ranks: " << (verdict.ok() ? "" : verdict.problems[0]);
      EXPECT_EQ(plan.sum, Sum::any);
    }
}

TEST(HalvingDoubling, MovesTheBytesOfARing) {
  for (const int ranks : {2, 8, 64}) {
    const Producer p = small_gemm(4 * ranks, 16, 5, ranks);
    const Plan ring = build_all_reduce(p, space_of(ranks, SpaceKind::all_reduce), Route::ring);
    EXPECT_EQ(traffic(halving(p, ranks)).total.bytes_to_peers, traffic(ring).total.bytes_to_peers);
  }
}

TEST(HalvingDoubling, MakesEachTileOnceInLogarithmicSteps) {
  const Plan plan = halving(small_gemm(64, 16, 5, 16), 16);
  const Expander expander(plan);
  for (int rank = 0; rank < 16; ++rank) {
    const Program program = expander.program(rank);
    std::int64_t steps = 0, rows = 0;
    for (const Action& action : program.actions)
      if (action.kind == ActionKind::step) ++steps, rows += action.box.size(0);
    EXPECT_EQ(steps, 5);
    EXPECT_EQ(rows, 64);
  }
}

TEST(HalvingDoubling, AProofNoticesWhatIsLost) {
  const Plan plan = halving(small_gemm(32, 16, 5, 8), 8);
  Plan twice = plan;  // the wrong partner
  for (Rule& rule : twice.rules)
    if (rule.name == "halve") rule.targets[0].rank = Expr::parse("(r + d) % N");
  EXPECT_FALSE(verify(twice).ok());
  Plan early = plan;  // sums that do not wait for what comes
  for (Rule& rule : early.rules)
    if (rule.name == "halve") rule.waits.pop_back();
  EXPECT_FALSE(verify(early).ok());
  Plan listed = plan;  // it is a tree, not the order that flat routes have
  listed.sum = Sum::listed;
  EXPECT_FALSE(verify(listed).ok());
}

TEST(HalvingDoubling, IsBuiltWhereItIsAskedFor) {
  Space space = space_of(4, SpaceKind::all_reduce);
  space.options.route = Route::halving_doubling;
  const Plan plan = build(gemm({.m = 32, .n = 16, .k = 4}), space);
  EXPECT_EQ(plan.route, Route::halving_doubling);
  EXPECT_EQ(plan.why.rfind("halving_doubling: as asked", 0), 0u) << plan.why;
  EXPECT_EQ(to_json(parse_plan(to_json(plan), "text")), to_json(plan));
  EXPECT_EQ(parse_route("halving-doubling"), Route::halving_doubling);
  space.options.slices = 4;
  EXPECT_NE(refusal([&] { build(gemm({.m = 32, .n = 16, .k = 4}), space); }).find("not made in slices"),
            std::string::npos);
}

TEST(HalvingDoubling, RefusesOddRanksRowsAndWires) {
  EXPECT_NE(refusal([] { halving(small_gemm(36, 16, 5, 6), 6); }).find("for 2, 4, 8, ... ranks, not 6"),
            std::string::npos);
  EXPECT_NE(refusal([] { halving(small_gemm(37, 16, 5, 4), 4); }).find("1 are left over; use 40 rows"),
            std::string::npos);
  Space narrow = space_of(4, SpaceKind::all_reduce);
  narrow.options.wire = Dtype::bf16;
  EXPECT_NE(
      refusal([&] { build_all_reduce(small_gemm(32, 16, 5, 4), narrow, Route::halving_doubling); }).find("sends f32"),
      std::string::npos);
  Space scatter = space_of(4, SpaceKind::reduce_scatter);
  scatter.options.route = Route::halving_doubling;
  EXPECT_NE(refusal([&] { build(gemm({.m = 32, .n = 16, .k = 4}), scatter); }).find("no route halving_doubling"),
            std::string::npos);
}

}  // namespace
}  // namespace weft
