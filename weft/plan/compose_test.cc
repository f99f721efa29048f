#include "weft/plan/compose.h"

#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/refusal_test.h"
#include "weft/plan/plans_test.h"
#include "weft/plan/program.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using namespace testing_plans;  // NOLINT: the plans under test

void expect_proved(const Plan& plan) {
  const Verdict verdict = verify(plan);
  EXPECT_TRUE(verdict.ok()) << plan.name << " for " << plan.num_ranks << ": " << verdict.problems.front();
  EXPECT_EQ(to_json(parse_plan(to_json(plan), "x")), to_json(plan));
}

// What is owed in a buffer, element ranges by what they hold.
std::set<std::string> owed_in(const Plan& plan, const char* buffer) {
  std::set<std::string> out;
  const Expander expander(plan);
  for (int rank = 0; rank < plan.num_ranks; ++rank)
    for (const Expander::Due& due : expander.owed(rank))
      if (plan.buffers[due.piece.buffer].name == buffer)
        out.insert(fmt::format("rank {} {} from {},{} of {}: {} ranks from {}{}", rank, to_string(due.piece.box),
                               due.origin[0], due.origin[1], due.leaf, due.contributors, due.first,
                               due.finished ? ", finished" : ""));
  return out;
}

TEST(Then, ReduceScatterThenAllGatherIsAnAllReduce) {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const Route one : {Route::ring, Route::direct})
      for (const Route two : {Route::ring, Route::direct}) {
        const Producer p = small_gemm(13 * ranks, 29, 5, ranks, true);
        const Plan plan =
            then(reduce_scatter_plan(p, ranks, one), all_gather_plan(small_copy(13, 29, ranks), ranks, two));
        expect_proved(plan);
        EXPECT_EQ(plan.producers.size(), 1u);
        EXPECT_EQ(owed_in(plan, "y"), owed_in(all_reduce_plan(p, ranks, Route::ring), "y"));
      }
}

TEST(Then, ReduceScatterFeedsAnAllGatherIntoGemm) {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const Route one : {Route::ring, Route::direct})
      for (const Route two : {Route::ring, Route::direct})
        expect_proved(then(reduce_scatter_plan(small_gemm(7 * ranks, 30, 5, ranks), ranks, one),
                           gather_gemm_plan(small_gemm(7, 19, 30, ranks, true), ranks, two)));
}

TEST(Then, AllReduceFeedsTheNextGemm) {
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const Route route : {Route::ring, Route::one_shot, Route::two_shot}) {
      const Plan reduced = all_reduce_plan(small_gemm(37, 29, 5, ranks, true), ranks, route);
      const Plan plan = then(reduced, build_keep(small_gemm(37, 11, 29, ranks), ranks));
      expect_proved(plan);
      EXPECT_EQ(plan.buffers[plan.buffer("y")].role, Role::output);
      EXPECT_EQ(plan.buffers[plan.buffer("y.1")].role, Role::internal);
      // A whole block: all_reduce, gemm, gemm with all_reduce.
      expect_proved(then(plan, all_reduce_plan(small_gemm(37, 21, 11, ranks), ranks, route)));
    }
}

TEST(Then, CopiesOfAnAllReduceAreOwedPieceByPiece) {
  const Plan plan = then(all_reduce_plan(small_gemm(37, 29, 5, 3), 3, Route::ring),
                         all_gather_plan(small_copy(37, 29, 3), 3, Route::ring));
  expect_proved(plan);
  EXPECT_EQ(owed_in(plan, "y").size(), 27u);  // 3 ranks, 3 copies, 3 chunks
}

TEST(Then, SumsOfKeptOutputsAreSums) {
  for (const int ranks : {2, 3, 8})
    for (const Route route : {Route::ring, Route::one_shot, Route::two_shot}) {
      const Plan plan = then(build_keep(small_gemm(37, 29, 5, ranks), ranks),
                             all_reduce_plan(small_copy(37, 29, ranks), ranks, route));
      expect_proved(plan);
      EXPECT_EQ(owed_in(plan, "y"), owed_in(all_reduce_plan(small_gemm(37, 29, 5, ranks), ranks, route), "y"));
    }
}

TEST(Then, ChunksOfDifferentSizesNeedATable) {
  // 10 rows over 4 ranks: ranks write 3, 3, 2, 2 rows of the joined buffer, in tiles of 1.
  const Producer p = validated(gemm({.m = 10, .n = 8, .k = 5, .tile = {1, 8}}), 4);
  Space rows = space_of(4, SpaceKind::all_to_all);
  const Plan first = build_reduce_scatter(p, space_of(4, SpaceKind::reduce_scatter), Route::direct);
  Plan second = build_keep(validated(copy({.rows = 3, .cols = 8, .tile = {1, 8}}), 4), 4);
  second.buffers.push_back(
      {"x",
       Dtype::f32,
       Role::input,
       {cut(Expr(10), Expr::name("N"), Expr::name("r") + 1) - cut(Expr(10), Expr::name("N"), Expr::name("r")), 8},
       1,
       {}});
  Rule& rule = second.rules[0];
  const BoxRule mine{{0, 0}, {second.buffers[1].shape[0], 8}};
  rule.kind = ActionKind::trigger;
  rule.producer = -1;
  rule.box = rule.targets[0].box = second.owed[0].piece.box = mine;
  rule.sources = {{Expr::name("r"), 1, mine}};
  second.owed[0].leaf = -2;
  second.producers.clear();
  expect_proved(second);
  const Plan plan = then(first, second);
  expect_proved(plan);
  EXPECT_EQ(plan.tables.at(0).values, (Table{3, 3, 2, 2}));
}

TEST(Then, KeepsPurposesAndTheRouteWhereThereIsOne) {
  const Producer first = small_gemm(12, 20, 5, 2), second = small_gemm(6, 11, 20, 2);
  const auto joined = [&](Route one, Route two) {
    return then(reduce_scatter_plan(first, 2, one), gather_gemm_plan(second, 2, two));
  };
  EXPECT_EQ(joined(Route::direct, Route::direct).route, Route::direct);
  const Plan mixed = joined(Route::ring, Route::direct);
  EXPECT_FALSE(mixed.route);
  EXPECT_EQ(mixed.counters[mixed.counter("credit")].purpose, Purpose::credit);
  EXPECT_EQ(mixed.counters[mixed.counter("credit.2")].purpose, Purpose::credit);
  EXPECT_EQ(mixed.counters[mixed.counter("y.full")].purpose, Purpose::data);
}

TEST(Then, ADroppedWaitIsRefused) {
  Plan plan = then(reduce_scatter_plan(small_gemm(52, 29, 5, 4), 4, Route::ring),
                   all_gather_plan(small_copy(13, 29, 4), 4, Route::ring));
  int dropped = 0;
  for (Rule& rule : plan.rules)
    dropped += static_cast<int>(
        std::erase_if(rule.waits, [&](const WaitRule& w) { return w.counter == plan.counter("y.full"); }));
  EXPECT_EQ(dropped, 1);
  const Verdict verdict = verify(plan);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.problems[0].find("without waiting for"), std::string::npos) << verdict.problems[0];
}

TEST(Then, RefusalsNameTheReason) {
  const Plan reduced = reduce_scatter_plan(small_gemm(52, 29, 5, 4), 4, Route::ring);
  const Plan gathered = all_gather_plan(small_copy(13, 29, 4), 4, Route::ring);
  const auto says = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(refusal([&] { then(reduced, all_gather_plan(small_copy(13, 29, 2), 2, Route::ring)); }), "ranks");
  says(refusal([&] { then(reduced, all_gather_plan(small_copy(14, 29, 4), 4, Route::ring)); }), "13 x 29");
  says(refusal([&] { then(reduced, gathered, "z"); }), "no output \"z\"");
  says(refusal([&] { then(reduced, reduced, "y", "inbox"); }), "no input");
  says(refusal([&] { then(reduced, all_reduce_plan(small_copy(13, 29, 4), 4, Route::ring)); }), "already summed");
  const Producer tables = validated(embedding_bag({.tables = 1, .rows = 9, .dim = 29, .batch = 13, .tile_rows = 4}), 4);
  says(refusal([&] { then(reduced, build_keep(tables, 4)); }), "indices");
}

}  // namespace
}  // namespace weft
