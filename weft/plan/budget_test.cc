// Small plans that would take years or terabytes, each refused by its budget; and what a budget counts.
#include "weft/plan/budget.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/plan/small_plans_test.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

constexpr double kSmall = 0.02;  // of the usual budget: so that tests are short

Plan plan_with(int ranks, const std::string& counters, const std::string& rules, const std::string& owed) {
  return parse_plan(fmt::format(R"({{"format": 1, "name": "h", "ranks": {}, "buffers": [{{"name": "y", "role": "output",
      "shape": [4]}}], "counters": [{}], "rules": [{}], "owed": [{}]}})",
                                ranks, counters, rules, owed),
                    "test");
}

void expect_over_budget(const Plan& plan, const char* of, double budget = kSmall) {
  const std::string said = refusal([&] { verify(plan, {budget}); });
  EXPECT_NE(said.find("within its budget"), std::string::npos) << said;
  EXPECT_NE(said.find(of), std::string::npos) << said;
}

TEST(Budget, LoopsOfWhichNothingComesAreCharged) {
  const char* guard = "((r%7 + r%7) + (r%7 + r%7)) < 0";
  const std::string owed = fmt::format(R"p({{"count": "1000000 * (r > 0)", "when": "{}",
      "piece": {{"buffer": "y", "box": ["0:4"]}}, "origin": [0], "input": "y"}})p",
                                       guard);
  expect_over_budget(plan_with(4096, "", "", owed), "units of work");
  const std::string rule =
      fmt::format(R"p({{"name": "t", "kind": "trigger", "count": "100000 * (r > 0)", "when": "{}"}})p", guard);
  expect_over_budget(plan_with(4096, "", rule, ""), "units of work");
  const std::string list = R"p({"name": "t", "kind": "trigger", "count": 1000,
      "waits": [{"counter": "c", "each": 2000, "when": "j < 0"}]})p";
  expect_over_budget(plan_with(64, R"p({"name": "c"})p", list, ""), "units of work");
}

TEST(Budget, ComparisonsAreCharged) {
  const char* rules = R"p({"name": "a", "kind": "trigger", "count": 20000, "signals": [{"rank": "r", "counter": "c"}]},
      {"name": "b", "kind": "trigger", "count": 20000, "waits": [{"counter": "c", "at": 20000}]})p";
  expect_over_budget(plan_with(1, R"p({"name": "c", "total": 20000})p", rules, ""), "units of work", 0.1);
}

TEST(Budget, RecordsAreWeighed) {
  const char* many = R"p({"name": "t", "kind": "trigger", "count": 3000, "waits": [{"counter": "c", "at": 0}]})p";
  expect_over_budget(plan_with(100, R"p({"name": "c", "total": 0})p", many, ""), "of memory");
  // Uneven lanes, tile by tile.
  const char* tiles = R"p({"name": "a", "kind": "trigger", "box": ["0:4096", "0:4096"], "tile": [1, 1],
      "signals": [{"rank": "r", "counter": "c", "per": 1}, {"rank": "r", "counter": "c", "per": 2}]})p";
  expect_over_budget(plan_with(1, R"p({"name": "c", "count": 16777216, "total": 2})p", tiles, ""), "of memory", 1);
}

TEST(Budget, ReadingIsCharged) {
  std::string sum = "r";
  for (int i = 0; i < 1000; ++i) sum += "+r";
  std::string waits;
  for (int i = 0; i < 100; ++i) waits += fmt::format(R"({}{{"counter": "c", "index": "{}"}})", i > 0 ? "," : "", sum);
  const std::string text = fmt::format(R"({{"format": 1, "name": "h", "ranks": 1, "counters": [{{"name": "c"}}],
      "rules": [{{"name": "t", "kind": "trigger", "waits": [{}]}}]}})",
                                       waits);
  EXPECT_EQ(parse_plan(text, "test").rules[0].waits.size(), 100u);
  EXPECT_NE(refusal([&] { parse_plan(text, "test", {kSmall}); }).find("within its budget"), std::string::npos);
  EXPECT_NE(refusal([&] { parse_plan(text, "test", {1e-6}); }).find("at most"), std::string::npos);
}

TEST(Budget, SmallPlansTakeLittleAndNoneTakesNothing) {
  const double used = verify(testing::pair_plan()).budget;
  EXPECT_GT(used, 0);
  EXPECT_LT(used, 1e-3);
  EXPECT_NE(refusal([] { verify(testing::pair_plan(), {1e-9}); }).find("within its budget"), std::string::npos);
  for (const double wrong : {0.0, -1.0, 1e9})
    EXPECT_NE(refusal([&] { Budget budget(wrong); }).find("times the usual one"), std::string::npos);
}

TEST(Budget, SumsDoNotWrap) {
  Budget budget;
  budget.spend(10, 10);
  EXPECT_EQ(budget.work(), 100);
  EXPECT_NE(refusal([&] { budget.spend(INT64_MAX, INT64_MAX); }), "did not throw");
  Budget other;
  other.hold(100);
  other.scratch(1000);
  EXPECT_NE(refusal([&] { other.hold(INT64_MAX); }), "did not throw");
  EXPECT_NE(refusal([&] { other.scratch(INT64_MAX); }), "did not throw");
  EXPECT_NE(refusal([&] { other.hold(Budget::kBytes - 1000); }), "did not throw");
}

}  // namespace
}  // namespace weft
