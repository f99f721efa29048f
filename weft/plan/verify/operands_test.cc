// What a product is made from, whose epilogue was applied where, and which rows are there when a run leaves some out:
// plans broken in these by hand are refused, by ranges and tile by tile.
#include <functional>

#include <gtest/gtest.h>

#include "weft/plan/plans_test.h"
#include "weft/plan/program.h"
#include "weft/plan/rule_words.h"
#include "weft/plan/small_plans_test.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using namespace testing_plans;  // NOLINT: the plans under test
using testing::e;
using testing::rows;
using testing::shot_plan;

struct Spoilt {
  const char* says;
  Plan plan;
  std::function<void(Plan&)> spoil;
};

void expect_refused(const std::vector<Spoilt>& list) {
  for (const Spoilt& one : list) {
    const auto index = &one - list.data();
    ASSERT_TRUE(verify(one.plan).ok()) << index << ": " << verify(one.plan).problems.front();
    Plan plan = one.plan;
    one.spoil(plan);
    const Verdict verdict = verify(plan);
    EXPECT_FALSE(verdict.ok()) << index << ": " << one.says;
    if (verdict.ok()) continue;
    EXPECT_NE(verdict.problems[0].find(one.says), std::string::npos) << verdict.problems[0] << "\n  not " << one.says;
    EXPECT_FALSE(verify(written_out(plan, true)).ok()) << one.says;
  }
}

Rule& rule_of(Plan& plan, std::string_view name) {
  for (Rule& rule : plan.rules)
    if (rule.name == name) return rule;
  ADD_FAILURE() << "no rule " << name;
  return plan.rules[0];
}

Plan gathered(Route route = Route::direct, int ranks = 3) {
  return gather_gemm_plan(small_gemm(8, 16, 5, ranks), ranks, route);
}

// A reduce-scatter whose rows are gathered for a gemm, in one plan: buffers inbox, y.1, a and y.
Plan half_block(Route one = Route::ring, Route two = Route::direct) {
  return then(reduce_scatter_plan(small_gemm(24, 20, 5, 3), 3, one),
              gather_gemm_plan(small_gemm(8, 11, 20, 3), 3, two));
}
Plan feeds_gemm() {
  return then(all_reduce_plan(small_gemm(8, 20, 5, 2), 2, Route::one_shot), build_keep(small_gemm(8, 11, 20, 2), 2));
}

// A trigger "send" that adds its first source once more.
void double_source(Plan& p, std::string_view name) {
  Rule& rule = rule_of(p, name);
  rule.sources.push_back(rule.sources[0]);
}
void owe_nothing_of(Plan& p, std::string_view name) {
  const int buffer = p.buffer(name);
  std::erase_if(p.owed, [&](const Owed& owed) { return owed.piece.buffer == buffer; });
}

TEST(Operands, OfAProductAreRowsOfAnInputOrOwed) {
  const char* unknown = "of which the plan does not owe what they hold";
  expect_refused({
      {unknown, gathered(), [](Plan& p) { double_source(p, "send"), owe_nothing_of(p, "a"); }},
      {unknown, gathered(Route::ring), [](Plan& p) { double_source(p, "gather"), owe_nothing_of(p, "a"); }},
      {unknown, gathered(Route::staged), [](Plan& p) { double_source(p, "send"), owe_nothing_of(p, "a"); }},
      {"but gets rank", gathered(), [](Plan& p) { double_source(p, "send"); }},
      {unknown, half_block(), [](Plan& p) { owe_nothing_of(p, "a"); }},
      {unknown, half_block(), [](Plan& p) { owe_nothing_of(p, "y.1"); }},
      {unknown, feeds_gemm(), [](Plan& p) { owe_nothing_of(p, "y.1"); }},
      {unknown, feeds_gemm(), [](Plan& p) { double_source(p, "sum"), owe_nothing_of(p, "y.1"); }},
  });
}

TEST(Operands, OfAProductHaveTheRowsOfItsBox) {
  const char* other = "reads other rows than those its box is made from";
  expect_refused({
      {other, gathered(Route::staged),
       [](Plan& p) {
         rule_of(p, "send").targets[0].box = {{e("(N - 1 - r) * m"), 0}, {e("(N - r) * m"), e("k")}};
       }},
      {other, feeds_gemm(),
       [](Plan& p) {
         Rule& make = rule_of(p, "make");
         make.box = make.targets[0].box = {{0, 0}, {4, 11}};
         make.reads[0].box = {{4, 0}, {8, 20}};
         p.owed.back().piece.box = {{0, 0}, {4, 11}};
       }},
  });
}

// Rows 0 and on of a stack are what rank 0 has, whoever makes something from them.
TEST(Operands, OfAStackAreTheSameOnAllRanks) {
  expect_refused({{"from other values than", half_block(), [](Plan& p) {
                     for (Rule& rule : p.rules) rule.limit = Limit::none;
                     Rule& gemm = rule_of(p, "gemm");
                     const Expr own = e("s > 0") * e("r == 1") * e("c == 0");
                     gemm.reads[1].when = gemm.reads[1].when - own;
                     gemm.reads.push_back(piece(p.buffer("y.1"), {{0, 0}, {8, 20}}).when(own));
                     for (WaitRule& wait : gemm.waits)
                       if (p.counters[at(wait.counter)].name == "y.full") wait.when = 1;
                   }}});
}

TEST(Operands, OfAStackAreNotARanksOwnX) {
  // Rows of a stack that are made from the rank's own x, as rows 0 and on.
  Plan plan = gathered(Route::direct, 2);
  Rule own = rule_of(plan, "gemm");
  own.name = "own", own.count = 1, own.when = e("r == 1");
  own.reads.clear(), own.waits.clear(), own.signals.clear();
  own.let = {{"c", 0}};
  plan.buffers.push_back({"z", Dtype::f32, Role::output, {8, 16}, 1, {}});
  own.targets = {piece(3, {{0, 0}, {8, 16}})};
  plan.rules.push_back(own);
  Owed owed;
  owed.when = e("r == 1");
  owed.piece = piece(3, {{0, 0}, {8, 16}});
  owed.origin = {0, 0};
  owed.first = 1;
  plan.owed.push_back(owed);
  const Verdict verdict = verify(plan);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.problems[0].find("from its own x"), std::string::npos) << verdict.problems[0];
}

TEST(Epilogues, AreThoseOfTheProducerThatIsOwed) {
  Producer first = small_gemm(8, 20, 5, 2, true), second = small_gemm(8, 20, 20, 2, true);
  const Plan plan = then(all_reduce_plan(first, 2, Route::one_shot), build_keep(second, 2));
  expect_refused({
      {"as epilogue(", plan, [](Plan& p) { rule_of(p, "sum").producer = 1; }},
      {"as epilogue(", plan,
       [](Plan& p) {
         for (Owed& owed : p.owed) owed.epilogue = 1;
       }},
  });
  Plan trigger = shot_plan();
  trigger.producers.push_back(trigger.producers[0]);
  trigger.producers[1].activation = Activation::relu;
  trigger.rules[1].finish = 1;
  trigger.owed[0].finished = true;
  ASSERT_TRUE(verify(trigger).ok());
  trigger.rules[1].producer = 1;
  EXPECT_FALSE(verify(trigger).ok()) << "the second producer's epilogue on what the first made";
  trigger.owed[0].epilogue = 1;
  EXPECT_TRUE(verify(trigger).ok()) << "unless that is owed";
}

// A copy's epilogue on what a gemm made.
TEST(Epilogues, OfACopyAreOwedWhereItIsComposed) {
  Producer copied = copy({.rows = 8, .cols = 20, .tile = {4, 8}});
  copied.bias = true;
  const Plan plan =
      then(build_keep(small_gemm(8, 20, 5, 2), 2), all_reduce_plan(validated(copied, 2), 2, Route::two_shot));
  const Verdict verdict = verify(plan);
  EXPECT_TRUE(verdict.ok()) << verdict.problems.front();
  expect_refused({{"as epilogue(", plan, [](Plan& p) { p.owed.back().epilogue = -1; }}});
}

TEST(Epilogues, FindTheirResidualAtTheSamePlaceOfTheOutput) {
  GemmOptions options{.m = 12, .n = 8, .k = 5, .tile = {4, 8}, .residual = true};
  const Plan all = all_reduce_plan(validated(gemm(options), 3), 3, Route::two_shot);
  // Rank 0 keeps what it finishes m rows further on; what the others get has the residual of those rows.
  expect_refused({{"as epilogue(", all, [](Plan& p) {
                     const int y = p.buffer("y");
                     p.buffers[at(y)].shape[0] = e("2 * m");
                     for (PieceRule& target : rule_of(p, "two_shot").targets)
                       if (target.buffer == y)
                         for (auto* bound : {&target.box.lo[0], &target.box.hi[0]})
                           *bound = *bound + e("m * (r == 0) * (j == 0)");
                     for (Owed& owed : p.owed)
                       for (auto* bound : {&owed.piece.box.lo[0], &owed.piece.box.hi[0]})
                         *bound = *bound + e("m * (r == 0) * (s == 0)");
                   }}});
}

// Which count says how many rows of a rank's there are.
TEST(Counts, OfPeersMeanOneThingInAPlan) {
  const char* wrong = "are left out by the count";
  const auto limit = [](const char* name, const char* peer) {
    return [=](Plan& p) { rule_of(p, name).limit_peer = e(peer); };
  };
  Space exchange = space_of(3, SpaceKind::all_to_all);
  const Plan direct = build_all_to_all(small_gemm(12, 16, 5, 3), exchange, Route::direct);
  const Plan staged = build_all_to_all(small_gemm(12, 16, 5, 3), exchange, Route::staged);
  expect_refused({
      {wrong, gathered(), limit("send", "(r + 1) % N")},
      {wrong, gathered(), limit("gemm", "r")},
      {wrong, gathered(Route::ring), limit("gather", "r")},
      {wrong, gathered(Route::staged), limit("send", "(r + 1) % N")},
      {wrong, gathered(), [&](Plan& p) { limit("send", "(r + 1) % N")(p), limit("gemm", "(c + 1) % N")(p); }},
      {wrong, direct, limit("exchange", "r")},
      {wrong, direct, limit("exchange", "(d + 1) % N")},
      {wrong, staged, limit("exchange", "0")},
      {wrong, half_block(), limit("send", "(r + 1) % N")},
      // The count of rows for a peer, on rows that are gathered from it.
      {wrong, half_block(Route::direct, Route::ring), limit("gather", "r")},
  });
}

TEST(Counts, OfRowsSpeakOfTheOutput) {
  const Plan plan = all_gather_plan(small_gemm(8, 16, 5, 3), 3, Route::ring);
  const auto shift = [](const char* name, int by) {
    return [=](Plan& p) {
      Rule& rule = rule_of(p, name);
      for (auto* bound : {&rule.box.lo[0], &rule.box.hi[0]}) *bound = *bound + by;
    };
  };
  expect_refused({{"rows are left out too many", plan, shift("gather", 4)}});
  Plan later = all_gather_plan(small_gemm(8, 16, 5, 3), 3, Route::direct);
  ASSERT_TRUE(verify(later).ok());
  // What leaves too few out is right.
  Plan none = plan;
  for (Rule& rule : none.rules) rule.limit = Limit::none;
  EXPECT_TRUE(verify(none).ok());
}

// A trigger that sends rows 4 to 8 of a rank in a second part leaves none out that counts.
TEST(Counts, OfPeersHoldForWhatIsSentInParts) {
  Plan plan = gathered();
  Rule& send = rule_of(plan, "send");
  send.count = 2;
  for (BoxRule* box : {&send.box, &send.sources[0].box}) box->lo[0] = e("4 * s"), box->hi[0] = e("4 * s + 4");
  send.targets[0].box.lo[0] = e("r * m + 4 * s"), send.targets[0].box.hi[0] = e("r * m + 4 * s + 4");
  send.signals[0].index = e("r * strips + s");
  const Verdict verdict = verify(plan);
  EXPECT_TRUE(verdict.ok()) << verdict.problems.front();
}

}  // namespace
}  // namespace weft
