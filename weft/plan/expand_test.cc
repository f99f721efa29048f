#include <functional>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/refusal_test.h"
#include "weft/plan/plans_test.h"
#include "weft/plan/program.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using namespace testing_plans;  // NOLINT: the plans under test

// Three ranks; rank r sends row s of x to every other rank's y, in lanes of one column.
Plan toy() {
  Plan plan;
  plan.name = "toy";
  plan.num_ranks = 3;
  plan.params = {{"w", 4}};
  const Expr r = Expr::name("r"), s = Expr::name("s"), j = Expr::name("j"), w = Expr::name("w"),
             to = (r + 1 + j) % Expr::name("N");
  plan.buffers = {{"x", Dtype::f32, Role::input, {2, w}, 1, {}}, {"y", Dtype::f32, Role::output, {6, w}, 1, {}}};
  plan.counters = {{"open", 3, 1}, {"got", Expr::name("N"), 8}};
  Rule rule;
  rule.name = "send";
  rule.count = 3;
  rule.when = lt(s, 2);
  rule.let = {{"row", 2 * r + s}};
  rule.box = {{s, 0}, {s + 1, w}};
  rule.tile = {0, 1};
  rule.sources = {{r, 0, rule.box}};
  const Expr row = Expr::name("row");
  rule.targets = {{to, 1, {{row, 0}, {row + 1, w}}, 3, ne(to, r)}};
  rule.waits = {{0, to, 1, 0, 0, 2}};
  rule.signals = {{to, 1, r, 0, 2}};
  plan.rules = {rule};
  return plan;
}

TEST(Expand, RulesBecomeTheActionsOneWouldWriteByHand) {
  const Expander expander(toy());
  const Program program = expander.program(1);
  ASSERT_EQ(program.actions.size(), 2u);  // s = 2 is ruled out
  const Action& second = program.actions[1];
  EXPECT_EQ(second.s, 1);
  EXPECT_EQ(second.box, (Box{{1, 2}, {0, 4}}));
  EXPECT_EQ(second.lanes, 4);
  ASSERT_EQ(program.targets(second).size(), 2u);  // of three, the one that is rank 1 itself is left out
  EXPECT_EQ(program.targets(second)[0].rank, 2);
  EXPECT_EQ(program.targets(second)[1].rank, 0);
  EXPECT_EQ(program.targets(second)[0].box, (Box{{3, 4}, {0, 4}}));
  ASSERT_EQ(program.of(second).size(), 2u);
  EXPECT_EQ(program.of(second)[0].counter, 2);          // open[2]
  EXPECT_EQ(program.signals_of(second)[0].counter, 4);  // got[1], after the three of `open`
  EXPECT_EQ(expander.counter_name(4, 2), "got[1]");
  EXPECT_EQ(expander.counter_total(4, 2), 8u);
  EXPECT_EQ(expander.num_counters(0), 6);
  EXPECT_EQ(expander.shape(1, 0), (std::vector<std::int64_t>{6, 4}));
}

TEST(Expand, LanesAreTilesRowByRow) {
  const Box box{{10, 17}, {0, 5}};
  EXPECT_EQ(grid_of(box, {3, 2}).rows, 3);
  EXPECT_EQ(grid_of(box, {3, 2}).cols, 3);
  EXPECT_EQ(lane_box(box, {3, 2}, 0), (Box{{10, 13}, {0, 2}}));
  EXPECT_EQ(lane_box(box, {3, 2}, 5), (Box{{13, 16}, {4, 5}}));
  EXPECT_EQ(lane_box(box, {3, 2}, 8), (Box{{16, 17}, {4, 5}}));
  EXPECT_EQ(lane_box(box, {3, 0}, 1), (Box{{13, 16}, {0, 5}}));
  Action action;
  action.box = box;
  action.tile = {3, 2};
  EXPECT_EQ(lane_rows(Box{{0, 7}, {0, 99}}, action, 5), (Box{{3, 6}, {0, 99}}));
}

TEST(Expand, RingVisitsTheChunksInOrder) {
  const Plan plan = reduce_scatter_plan(small_gemm(37, 29, 5, 4), 4, Route::ring);
  const Program program = Expander(plan).program(2);
  const std::int64_t starts[] = {10, 0, 28, 19};  // chunks 1, 0, 3, 2 of 10, 9, 9, 9 rows
  for (int s = 0; s < 4; ++s) EXPECT_EQ(program.actions[s].box.lo[0], starts[s]) << s;
  EXPECT_EQ(program.sources(program.actions[0]).size(), 0u);
  EXPECT_EQ(program.targets(program.actions[0])[0].rank, 3);
  EXPECT_EQ(program.sources(program.actions[3]).size(), 1u);
  EXPECT_EQ(program.targets(program.actions[3])[0].rank, 2);
}

TEST(Expand, RefusesWhatLeavesItsBounds) {
  const auto says = [](const std::function<void(Plan*)>& change, const char* part) {
    Plan plan = toy();
    change(&plan);
    const std::string text = refusal([&] {
      const Expander expander(plan);
      for (int rank = 0; rank < plan.num_ranks; ++rank)
        expander.program(rank), expander.owed(rank), expander.shape(0, rank);
    });
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says([](Plan* p) { p->num_ranks = 0; }, "ranks");
  says([](Plan* p) { p->rules[0].targets[0].rank = 3; }, "rank 3");
  says([](Plan* p) { p->rules[0].targets[0].buffer = 9; }, "buffer 9");
  says([](Plan* p) { p->rules[0].signals[0].index = 3; }, "got[3]");
  says([](Plan* p) { p->rules[0].waits[0].at = -1; }, "value -1");
  says([](Plan* p) { p->rules[0].count = INT64_MAX; }, "loops");
  says([](Plan* p) { p->rules[0].waits[0].each = INT64_MAX; }, "loops");
  says([](Plan* p) { p->rules[0].box.hi[1] = -1; }, "turned round");
  says([](Plan* p) { p->rules[0].box = {{0, 0}, {1 << 20, 1 << 20}}, p->rules[0].tile = {1, 1}; }, "tiles");
  says([](Plan* p) { p->rules[0].limit = Limit::peer, p->rules[0].limit_peer = 7; }, "rank 7");
  says([](Plan* p) { p->buffers[0].shape[0] = INT64_MAX; }, "dimension");
  says([](Plan* p) { p->counters[0].count = INT64_MAX; }, "instances");
  Owed owed;
  owed.piece = {Expr::name("r"), 1, {{0, 0}, {6, 4}}};
  owed.origin = {0, 0};
  owed.leaf = -1;
  const auto owes = [&](const std::function<void(Owed*)>& change, const char* part) {
    Owed changed = owed;
    change(&changed);
    says([&](Plan* p) { p->owed = {changed}; }, part);
  };
  owes([](Owed*) {}, "did not throw");
  owes([](Owed* o) { o->leaf = 0; }, "producer 0");
  owes([](Owed* o) { o->leaf = -3; }, "buffer 2");
  owes([](Owed* o) { o->piece.buffer = 2; }, "buffer 2");
  owes([](Owed* o) { o->origin.pop_back(); }, "dimensions");
  owes([](Owed* o) { o->piece.box.hi[0] = 7; }, "more than there is");
  owes([](Owed* o) { o->contributors = 4; }, "4 of 3");
  owes([](Owed* o) { o->contributors = INT64_MAX; }, "of 3 ranks");
  owes([](Owed* o) { o->contributors = 3, o->ranks_per_host = 2; }, "by hosts of 2");
  owes([](Owed* o) { o->contributors = 2, o->ranks_per_host = 3; }, "by hosts of 3");
  owes([](Owed* o) { o->contributors = 3, o->ranks_per_host = 0; }, "by hosts of 0");
  owes([](Owed* o) { o->count = INT64_MAX; }, "owes more");
  // A let is known only inside the loop that `count` turns.
  owes([](Owed* o) { o->let = {{"z", 1}}, o->count = Expr::name("z"); }, "\"z\"");
}

TEST(WrittenOut, IsProvedLikeThePlanItself) {
  for (const int ranks : {2, 3, 4})
    for (const Plan& plan : all_plans(ranks, 21, 18))
      for (const bool by_lane : {false, true}) {
        const Plan written = written_out(plan, by_lane);
        const Verdict one = verify(plan), two = verify(written);
        EXPECT_TRUE(two.ok()) << plan.name << ": " << two.problems.front();
        EXPECT_EQ(one.tiles, two.tiles) << plan.name;
        if (by_lane) {
          EXPECT_EQ(two.actions, one.tiles) << plan.name;
        }
      }
}

TEST(WrittenOut, IsRefutedLikeThePlanItself) {
  Plan plan = all_reduce_plan(small_gemm(21, 18, 5, 3), 3, Route::two_shot);
  std::erase_if(plan.rules, [](const Rule& rule) { return rule.name == "credit"; });
  for (const bool by_lane : {false, true}) EXPECT_FALSE(verify(written_out(plan, by_lane)).ok());
  EXPECT_FALSE(verify(plan).ok());
}

}  // namespace
}  // namespace weft
