// Plans of windows are proved like all others, and are not proved once a credit is left out: then a caller could write
// into rows that their owner still sums or reads.
#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/collective/build.h"
#include "weft/plan/price/estimate.h"
#include "weft/plan/program.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

Space window_space(SpaceKind kind, int num_ranks, SpaceOptions options = {}) {
  return {kind, Mesh({{"tp", num_ranks}}), "tp", std::move(options)};
}

TEST(WindowPlan, IsProvedAtEveryShapeAndSurvivesSaving) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (const std::int64_t m : {1, 3, 16, 23, 64})
      for (const SpaceKind kind :
           {SpaceKind::keep, SpaceKind::reduce_scatter, SpaceKind::all_reduce, SpaceKind::all_to_all}) {
        const Dtype dtype = m % 2 == 0 ? Dtype::bf16 : Dtype::f32;
        const Plan plan = build(window({.m = m, .n = 1000, .dtype = dtype}), window_space(kind, ranks));
        const Verdict verdict = verify(plan);
        EXPECT_TRUE(verdict.ok()) << plan.name << ", " << ranks << " ranks, m " << m << ": " << verdict.problems[0];
        EXPECT_TRUE(verify(written_out(plan, true)).ok());
        EXPECT_EQ(to_json(parse_plan(to_json(plan), "plan")), to_json(plan));
      }
  SpaceOptions uneven;
  uneven.rows = {0, 8, 16, 0};
  EXPECT_TRUE(verify(build(window({.m = 24, .n = 8}), window_space(SpaceKind::all_to_all, 2, uneven))).ok());
}

TEST(WindowPlan, IsNotProvedWithoutItsCredits) {
  for (const auto& [kind, dtype] : {std::pair(SpaceKind::reduce_scatter, Dtype::f32),
                                    {SpaceKind::reduce_scatter, Dtype::bf16},
                                    {SpaceKind::all_reduce, Dtype::f32},
                                    {SpaceKind::all_reduce, Dtype::bf16},
                                    {SpaceKind::all_to_all, Dtype::f32},
                                    {SpaceKind::all_to_all, Dtype::bf16}}) {
    const Plan plan = build(window({.m = 64, .n = 64, .dtype = dtype}), window_space(kind, 4));
    Plan broken = plan;
    for (Rule& rule : broken.rules)
      if (rule.kind == ActionKind::step) rule.waits.clear();
    EXPECT_FALSE(verify(broken).ok()) << plan.name;
    Plan late = plan;
    for (Rule& rule : late.rules)
      for (WaitRule& wait : rule.waits) wait.lag += rule.kind == ActionKind::step;
    EXPECT_FALSE(verify(late).ok()) << plan.name << " with credits of two runs before";
  }
}

TEST(WindowPlan, RowsLieSoFarApartThatOwnersHaveWholePages) {
  EXPECT_EQ(window_ld(2048, 2048, 2), 2048) << "they have already";
  EXPECT_EQ(window_ld(64, 64, 4), 64);
  EXPECT_EQ(window_ld(100, 256, 4), 1024) << "25 rows each";
  EXPECT_EQ(window_ld(64, 1000, 2), 1024);
  EXPECT_EQ(window_ld(64, 1000, 1), 1008) << "64 rows of 16 floats more";
  EXPECT_EQ(window_ld(7, 1030, 3), 2048) << "2 or 3 rows each";
  EXPECT_EQ(window_ld(100, 256, 4, Dtype::bf16), 2048) << "a page has 2048 of them";
  EXPECT_EQ(window_ld(64, 1000, 2, Dtype::bf16), 1024);
  for (const std::int64_t m : {1, 7, 24, 100, 129, 4096})
    for (const std::int64_t n : {1, 100, 1024, 5000})
      for (int ranks = 1; ranks <= 8; ++ranks) {
        const std::int64_t ld = window_ld(m, n, ranks);
        EXPECT_GE(ld, n);
        for (int rank = 0; rank <= ranks; ++rank)
          EXPECT_EQ(m * rank / ranks * ld % 1024, 0) << m << " x " << n << ", " << ranks << " ranks";
      }
}

// Nobody converts what was written: a step of a window in bf16 costs no more than one in f32.
TEST(WindowPlan, HalfTheBytesArePricedLower) {
  for (const SpaceKind kind : {SpaceKind::all_to_all, SpaceKind::keep}) {
    const auto seconds = [&](Dtype dtype) {
      const Plan plan = build(window({.m = 2048, .n = 2048, .dtype = dtype}), window_space(kind, 2));
      return estimate(plan, default_cluster(2)).seconds;
    };
    EXPECT_LT(seconds(Dtype::bf16), 0.6 * seconds(Dtype::f32)) << to_string(kind);
  }
}

TEST(WindowPlan, RefusesWhatAPageCannotDo) {
  const Producer p = window({.m = 64, .n = 64});
  const auto said = [&](SpaceKind kind, SpaceOptions options = {}) {
    return refusal([&] { build(p, window_space(kind, 4, options)); });
  };
  for (const SpaceKind kind : {SpaceKind::all_gather, SpaceKind::broadcast})
    EXPECT_NE(said(kind).find("use reduce_scatter, all_reduce, all_to_all or keep"), std::string::npos) << said(kind);
  for (const Route route : {Route::ring, Route::one_shot})
    EXPECT_NE(said(SpaceKind::all_reduce, {.route = route}).find("cannot, use auto or two_shot"), std::string::npos);
  EXPECT_NE(said(SpaceKind::reduce_scatter, {.route = Route::ring}).find("route ring cannot"), std::string::npos);
  EXPECT_NE(said(SpaceKind::reduce_scatter, {.wire = Dtype::bf16}).find("in f32, not bf16"), std::string::npos);
  const Producer narrow = window({.m = 64, .n = 64, .dtype = Dtype::bf16});
  EXPECT_TRUE(verify(build(narrow, window_space(SpaceKind::all_reduce, 4, {.wire = Dtype::bf16}))).ok())
      << "which is what is written";
  EXPECT_NE(refusal([&] {
              build(narrow, window_space(SpaceKind::all_reduce, 4, {.wire = Dtype::int8}));
            }).find("in bf16, not int8"),
            std::string::npos);
  Producer mixed = p;
  mixed.output = Dtype::bf16;
  EXPECT_NE(refusal([&] { build(mixed, keep()); }).find("written in f32 but makes bf16"), std::string::npos);
  EXPECT_NE(refusal([&] { build(window({.m = 64, .n = 64, .dtype = Dtype::f16}), keep()); }).find("f32 or bf16"),
            std::string::npos);
  Producer biased = p;
  biased.bias = true;
  EXPECT_NE(refusal([&] { build(biased, keep()); }).find("no epilogue"), std::string::npos);
}

}  // namespace
}  // namespace weft
