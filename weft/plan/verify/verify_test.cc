// Plans broken by hand, one promise at a time: each is refused, and the message names rank, action, and
// counter or box. That every plan a builder writes is proved is tested beside the builders
// (weft/collective/build_test.cc).
#include "weft/plan/verify/verify.h"

#include <algorithm>
#include <functional>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/plan/program.h"
#include "weft/plan/small_plans_test.h"

namespace weft {
namespace {

using testing::e;
using testing::pair_plan;
using testing::rows;
using testing::shot_plan;
using testing::small_rule;

enum { kFull, kUsed, kCredit };
enum { kInbox, kY };

TEST(Verify, ProvesTheSmallPlans) {
  for (const Plan& plan : {pair_plan(), shot_plan()}) {
    const Verdict ranges = verify(plan);
    EXPECT_TRUE(ranges.ok()) << ranges.problems.front();
    EXPECT_FALSE(ranges.by_tile);
    EXPECT_GT(ranges.tiles, ranges.actions);
    const Verdict tiles = verify(written_out(plan, true));
    EXPECT_TRUE(tiles.ok()) << tiles.problems.front();
    EXPECT_EQ(tiles.actions, ranges.tiles);
    EXPECT_NO_THROW(require_runnable(plan));
    EXPECT_EQ(ranges.own_outputs, std::vector{1}) << "y, and not the inbox, which others write";
    EXPECT_EQ(tiles.own_outputs, ranges.own_outputs);
  }
}

struct Wrong {
  const char* what;
  Plan plan;
  std::vector<std::string> says;  // all of it in one message
};

Wrong broken(const char* what, Plan plan, const std::function<void(Plan&)>& spoil, std::vector<std::string> says) {
  spoil(plan);
  return {what, std::move(plan), std::move(says)};
}

Plan pair_of_depth_2(int lag) {
  Plan plan = pair_plan();
  plan.buffers[kInbox].depth = 2;
  plan.rules[0].waits[0].lag = lag;
  return plan;
}

std::vector<Wrong> wrong_signals() {
  return {
      broken("dropped signal", pair_plan(), [](Plan& p) { p.rules[0].signals.clear(); },
             {"counter full[0] of rank 0 grows by 0 a run, but declares 1"}),
      broken("dropped signal, total adjusted", pair_plan(),
             [](Plan& p) { p.rules[0].signals.clear(), p.counters[kFull].total = 0; },
             {"step 1 of rank 0 (own, s = 0)", "waits for full[0] to reach 1", "grows by only 0"}),
      broken("dropped credit", pair_plan(), [](Plan& p) { p.rules[2].signals.clear(); },
             {"counter credit[0] of rank 0 grows by 0 a run, but declares 1"}),
      broken("credit not waited for", pair_plan(), [](Plan& p) { p.rules[0].waits.clear(); },
             {"step 0 of rank 0 (send, s = 0)", "writes [0:", "\"inbox\" on rank 1 again without a credit"}),
      broken("credit of a run too early", pair_plan(), [](Plan& p) { p.rules[0].waits[0].lag = 2; },
             {"step 0 of rank 0", "\"inbox\" on rank 1 again without a credit"}),
      broken("credit given before the read", pair_plan(), [](Plan& p) { p.rules[2].waits.clear(); },
             {"step 0 of rank 0", "\"inbox\" on rank 1 again without a credit from", "of rank 1 (own"}),
      broken("lag lowered: a cycle", pair_plan(), [](Plan& p) { p.rules[0].waits[0].lag = 0; },
             {"step 0 of rank 0 (send, s = 0)", "waits for credit[0] to reach 1", "nothing that could raise it"}),
      broken("lag beyond the depth", pair_of_depth_2(3), [](Plan&) {}, {"without a credit", "(depth 2)"}),
      broken("waits for too much", pair_plan(), [](Plan& p) { p.rules[1].waits[0].at = 2; },
             {"step 1 of rank 0 (own, s = 0)", "waits for full[0] to reach 2", "grows by only 1"}),
      broken("waits for too little", pair_plan(), [](Plan& p) { p.rules[1].waits[0].at = 0; },
             {"step 1 of rank 0 (own", "reads [0:", "\"inbox\" without waiting for", "step 0 of rank 1 (send"}),
      broken("waits for some of the tiles", pair_plan(), [](Plan& p) { p.rules[2].waits[0].at = 3; },
             {"step 0 of rank 0", "\"inbox\" on rank 1 again without a credit"}),
      broken("early signal", pair_plan(),
             [](Plan& p) {
               Rule early = small_rule("early", ActionKind::trigger, rows("0", "4"));
               early.signals.swap(p.rules[0].signals);
               p.rules.push_back(early);
             },
             {"step 1 of rank 0 (own", "reads [0:", "without waiting for", "step 0 of rank 1 (send"}),
  };
}

std::vector<Wrong> wrong_boxes() {
  return {
      broken("shifted logical box", pair_plan(), [](Plan& p) { p.rules[0].box = rows("4 * r", "4 * r + 4"); },
             {"step 1 of rank 0 (own, s = 0)", "adds elements of different places"}),
      broken("both shifted", pair_plan(),
             [](Plan& p) {
               p.rules[0].box = rows("4 * r", "4 * r + 4");
               p.rules[1].box = rows("4 * (1 - r)", "4 * (1 - r) + 4");
             },
             {"rank 0 is owed [0:4, 0:8] of \"y\"", "of another place"}),
      broken("piece of another shape", pair_plan(), [](Plan& p) { p.rules[1].targets[0].box = rows("0", "3"); },
             {"step 1 of rank 0 (own", "works on [0:4, 0:8]", "[0:3, 0:8] of \"y\""}),
      broken("aliased slots", shot_plan(), [](Plan& p) { p.rules[0].targets[0].box = rows("0", "4"); },
             {"step 0 of rank 0 (scatter", "step 0 of rank 1 (scatter", "both write [0:", "\"inbox\" on rank 0"}),
      broken("out of bounds", pair_plan(), [](Plan& p) { p.buffers[kY].shape[0] = 3; },
             {"step 1 of rank 0 (own", "touches [", "\"y\" on rank 0, which has only 3 in dimension 0"}),
      broken("reads another rank", pair_plan(), [](Plan& p) { p.rules[1].sources[0].rank = e("1 - r"); },
             {"step 1 of rank 0 (own", "reads \"inbox\" of rank 1", "only its own memory"}),
      broken("packed buffer cut across tiles", pair_plan(), [](Plan& p) { p.buffers[kInbox].packing.tile_cols = 3; },
             {"step 0 of rank 0 (send", "cuts [", "packed buffer \"inbox\" across its tiles"}),
      broken("writes an input", pair_plan(), [](Plan& p) { p.buffers[kY].role = Role::input; },
             {"step 1 of rank 0 (own", "writes the input \"y\""}),
      broken("reads what nobody writes", pair_plan(),
             [](Plan& p) {
               p.buffers[kInbox].shape[0] = 8;
               p.buffers[kInbox].packing = {};
               p.rules[1].sources[0].box = rows("4", "8");
             },
             {"step 1 of rank 0 (own", "reads [", "\"inbox\"", "written by nobody"}),
      broken("nothing to store", pair_plan(),
             [](Plan& p) {
               Rule rule = small_rule("empty", ActionKind::trigger, rows("0", "4"));
               rule.targets = {{e("r"), kY, rows("0", "4")}};
               p.rules.push_back(rule);
             },
             {"of rank 0 (empty, s = 0)", "has targets but nothing to store"}),
      broken("owed and never written", pair_plan(),
             [](Plan& p) {
               p.buffers[kY].shape[0] = 5;
               p.owed[0].piece.box = rows("0", "5");
             },
             {"rank 0 is owed [0:5, 0:8] of \"y\"", "8 elements are never written"}),
  };
}

std::vector<Wrong> wrong_sums() {
  const auto shared_barrier = [](Plan& p) {
    p.counters.push_back({"here", 1, 3});
    Rule arrive = small_rule("arrive", ActionKind::trigger);
    arrive.signals = {{e("j"), 3, 0, 0, 3}};
    p.rules.push_back(arrive);
    p.rules[0].waits.push_back({3, 0, 3});
  };
  return {
      broken("sources in another order", shot_plan(),
             [](Plan& p) { p.rules[1].sources[0].box = rows("(r + 2 + j) % N * 4", "(r + 2 + j) % N * 4 + 4"); },
             {"rank 0 is owed [0:4, 0:8] of \"y\" as rank 1 + rank 2 + rank 0, but gets rank 2 + rank 0 + rank "
              "1"}),
      broken("double contribution", shot_plan(), [](Plan& p) { p.rules[1].sources[0].each = 4; },
             {"rank 0 is owed", "but gets rank 1 + rank 2 + rank 0 + rank 1"}),
      broken("missing contribution", shot_plan(), [](Plan& p) { p.rules[1].sources[0].each = 2; },
             {"rank 0 is owed", "but gets rank 1 + rank 2"}),
      broken("epilogue forgotten", shot_plan(), [](Plan& p) { p.owed[0].finished = true; },
             {"rank 0 is owed", "epilogue(rank 1 + rank 2 + rank 0), but gets rank 1 + rank 2 + rank 0"}),
      broken("epilogue on a partial sum", shot_plan(), [](Plan& p) { p.rules[0].finish = 1; },
             {"rank 0 is owed", "but gets epilogue(rank 1)"}),
      broken("runs ahead on a shared counter", shot_plan(), shared_barrier,
             {"step 0 of rank 0 (scatter", "waits for here[0], which several ranks raise", "for the next run first"}),
      broken("a write that nobody waits for", shot_plan(),
             [](Plan& p) {
               p.buffers.push_back({"copy", Dtype::f32, Role::internal, {12, 8}, 1, {}});
               Rule extra = small_rule("extra", ActionKind::trigger, rows("0", "4"));
               extra.waits = {p.rules[1].waits[0], {kCredit, e("(r + 1) % N"), 1, 1}};
               extra.sources = {{e("r"), kInbox, rows("0", "4")}};
               extra.targets = {{e("(r + 1) % N"), 2, rows("0", "4")}};
               extra.signals = {{e("r"), kUsed, 0}};
               p.counters[kUsed].total = 8;
               p.rules[2].waits[0].at = 8;
               p.rules.push_back(extra);
             },
             {"of rank 2 (extra, s = 0)", "writes [0:", "\"copy\" on rank 0, but no action there waits for it"}),
  };
}

// The same verdict by ranges and with every tile written out.
void expect_refused(const Wrong& wrong) {
  const Verdict verdict = verify(wrong.plan);
  ASSERT_FALSE(verdict.ok()) << wrong.what;
  const bool found = std::any_of(verdict.problems.begin(), verdict.problems.end(), [&](const std::string& problem) {
    return std::all_of(wrong.says.begin(), wrong.says.end(),
                       [&](const std::string& part) { return problem.find(part) != std::string::npos; });
  });
  EXPECT_TRUE(found) << wrong.what << ": wanted " << fmt::format("{}", fmt::join(wrong.says, " ... ")) << "\n got "
                     << fmt::format("{}", fmt::join(verdict.problems, "\n     "));
  EXPECT_FALSE(verify(written_out(wrong.plan, true)).ok()) << wrong.what;
  EXPECT_THROW(require_runnable(wrong.plan), Error) << wrong.what;
  EXPECT_TRUE(verify(wrong.plan).own_outputs.empty()) << wrong.what;
}

TEST(Verify, RefusesWrongSignals) {
  for (const Wrong& wrong : wrong_signals()) expect_refused(wrong);
}
TEST(Verify, RefusesWrongBoxes) {
  for (const Wrong& wrong : wrong_boxes()) expect_refused(wrong);
}
TEST(Verify, RefusesWrongSums) {
  for (const Wrong& wrong : wrong_sums()) expect_refused(wrong);
}

TEST(Verify, AnyOrderIsRightWhenAskedFor) {
  Plan plan = shot_plan();
  plan.rules[1].sources[0].box = rows("j * 4", "j * 4 + 4");
  EXPECT_FALSE(verify(plan).ok());
  plan.sum = Sum::any;
  EXPECT_TRUE(verify(plan).ok());
  plan.rules[1].sources[0].each = 2;
  EXPECT_FALSE(verify(plan).ok());
}

// x + 2^64 y would be x, were sums compared by sums of hashes: 64 triggers double a row, and the last is added.
TEST(Verify, AnyOrderCountsEveryContribution) {
  Plan plan;
  plan.name = "doubled";
  plan.sum = Sum::any;
  plan.buffers = {{"x", Dtype::f32, Role::input, {1, 4}, 1, {}},
                  {"d", Dtype::f32, Role::internal, {65, 4}, 1, {}},
                  {"y", Dtype::f32, Role::output, {1, 4}, 1, {}}};
  plan.counters = {{"made", 65, 1}};
  const auto row = [](const char* lo, const char* hi) { return BoxRule{{e(lo), 0}, {e(hi), 4}}; };
  const auto trigger = [&](const char* name, std::vector<PieceRule> sources, PieceRule target) {
    Rule rule = small_rule(name, ActionKind::trigger, row("0", "1"));
    rule.sources = std::move(sources), rule.targets = {std::move(target)};
    return rule;
  };
  Rule first = trigger("first", {piece(0, row("0", "1"))}, piece(1, row("0", "1")));
  first.signals = {signal(0, 0)};
  Rule twice = trigger("twice", {piece(1, row("s", "s + 1")).each(2)}, piece(1, row("s + 1", "s + 2")));
  twice.count = 64;
  twice.waits = {wait(0).index(e("s")).reaches(e("1"))};
  twice.signals = {signal(0, 0).index(e("s + 1"))};
  Rule last = trigger("last", {piece(0, row("0", "1")), piece(1, row("64", "65"))}, piece(2, row("0", "1")));
  last.waits = {wait(0).index(64)};
  plan.rules = {first, twice, last};
  plan.params = {{"n", 4}};
  for (Rule& rule : plan.rules) rule.tile = {0, 0};
  Owed owed;
  owed.piece = piece(2, row("0", "1"));
  owed.origin = {0, 0};
  owed.leaf = -1;
  plan.owed = {owed};
  const Verdict verdict = verify(plan);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.problems[0].find("rank 0 is owed [0:1, 0:4] of \"y\" as rank 0, but gets"), std::string::npos)
      << verdict.problems[0];
  plan.rules[2].sources.pop_back();
  EXPECT_TRUE(verify(plan).ok());
}

// Executors compare counters modulo 2^32.
TEST(Verify, CountersThatPassHalfTheirRangeAreRefused) {
  Plan plan = testing::small_plan("wrap", 1, 8);
  plan.counters = {{"c", 1, 1 << 29}};
  Rule raise = small_rule("raise", ActionKind::trigger, {{0}, {1 << 19}});
  raise.tile = {1, 0};
  raise.signals = {signal(0, 0).each(1 << 10)};
  Rule rest = small_rule("rest", ActionKind::trigger);
  rest.waits = {wait(0).reaches(1 << 29), wait(0).reaches(1 << 29).lag(2)};
  plan.rules = {raise, rest};
  EXPECT_FALSE(verify(plan).ok());  // 4 x 2^29
  plan.rules[1].waits[1].at = (1 << 29) - 1;
  EXPECT_TRUE(verify(plan).ok());
  plan.rules[1].waits[1].lag = 3;
  const Verdict verdict = verify(plan);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.problems[0].find("waits for c[0] to reach 536870911 with lag 3, and it grows by 536870912 a run: "
                                     "more than 2^31 in 4 runs"),
            std::string::npos)
      << verdict.problems[0];
}

// As many as no proof looks at one by one, used unevenly: once returned as proved.
TEST(Verify, MoreTilesThanAreLookedAtAreRefused) {
  const auto plan_of = [](std::int64_t half, std::int64_t cols) {
    Plan plan = testing::small_plan("tiles", 1, 2 * half);
    plan.producers = {validated(copy({.rows = 2 * half, .cols = cols, .tile = {1, 1}}), 1)};
    plan.params = {{"h", half}, {"n", cols}};
    plan.buffers = {{"a", Dtype::f32, Role::internal, {e("2 * h"), e("n")}, 1, {}},
                    {"y", Dtype::f32, Role::output, {e("h"), e("n")}, 1, {}}};
    plan.counters = {{"full", e("2 * h * n"), 1}};
    Rule make = small_rule("make", ActionKind::step, rows("s * h", "s * h + h"));
    make.count = 2;
    make.targets = {piece(0, rows("s * h", "s * h + h"))};
    make.signals = {signal(0, 0).index(e("s * h * n")).per_lane()};
    Rule take = small_rule("take", ActionKind::trigger, rows("0", "h"));
    take.waits = {wait(0).per_lane(), wait(0).index(e("h * n")).per_lane()};
    take.sources = {piece(0, rows("h / 2", "h / 2 + h"))};
    take.targets = {piece(1, rows("0", "h"))};
    plan.rules = {make, take};
    for (Rule& rule : plan.rules) rule.tile = {1, 1};
    Owed owed;
    owed.piece = piece(1, rows("0", "h"));
    owed.origin = {0, 0};
    plan.owed = {owed};
    return plan;
  };
  EXPECT_FALSE(verify(plan_of(32, 64)).ok());
  const std::string said = refusal([&] { require_runnable(plan_of(2048, 3072)); });
  EXPECT_NE(said.find("within its budget of 960 MB of memory"), std::string::npos) << said;
}

TEST(Verify, DeeperBuffersTakeLaterCredits) {
  EXPECT_TRUE(verify(pair_of_depth_2(1)).ok());
  EXPECT_TRUE(verify(pair_of_depth_2(2)).ok());
}

// Counters shared by two tiles at a time need a look at single tiles; the proof still succeeds.
TEST(Verify, UnevenLanesAreProvedTileByTile) {
  Plan plan = pair_plan();
  plan.rules[1].waits = {{kFull, 0, 1, 0, 1}, {kFull, 1}};
  const Verdict verdict = verify(plan);
  EXPECT_TRUE(verdict.ok()) << verdict.problems.front();
  EXPECT_TRUE(verdict.by_tile);
}

// Lane i of a rule on rank r comes after lane i of rank r - 1, and on rank 0 after lane i - 1 of the last.
Plan in_turn(Plan plan, std::size_t rule) {
  const int turn = static_cast<int>(plan.counters.size());
  plan.counters.push_back({"turn", e("4 + (N - 1 - r) / (N - 1)"), 1});
  Rule begin = small_rule("begin", ActionKind::trigger);
  begin.when = e("r == 0");
  begin.signals = {signal(0, turn)};
  plan.rules[rule].waits.push_back(wait(turn).per_lane());
  plan.rules[rule].signals.push_back(signal(e("(r + 1) % N"), turn).index(e("r / (N - 1)")).per_lane());
  plan.rules.push_back(begin);
  return plan;
}

// Every lane as an action of its own; those that may change places the other way round.
Plan turned_round(const Plan& plan, const std::vector<ActionOf>& one_by_one) {
  Plan out = written_out(plan, true);
  const Expander expander(plan);
  auto first = out.rules.begin();
  for (int rank = 0; rank < plan.num_ranks; ++rank) {
    const Program program = expander.program(rank);
    for (std::size_t a = 0; a < program.actions.size(); ++a) {
      const auto end = first + program.actions[a].lanes;
      const auto is_this = [&](const ActionOf& one) { return one.rank == rank && one.action == static_cast<int>(a); };
      if (std::none_of(one_by_one.begin(), one_by_one.end(), is_this)) std::reverse(first, end);
      first = end;
    }
  }
  return out;
}

TEST(Verify, SaysWhoseLanesMayHaveToGoOneByOne) {
  Plan uneven = pair_plan();
  uneven.rules[1].waits = {{kFull, 0, 1, 0, 1}, {kFull, 1}};
  for (const Plan& plan : {pair_plan(), shot_plan(), uneven}) {
    const Verdict verdict = verify(plan, {.lane_order = true});
    ASSERT_TRUE(verdict.ok()) << verdict.problems.front();
    EXPECT_TRUE(verdict.one_by_one.empty()) << plan.name;
    EXPECT_TRUE(verify(turned_round(plan, {})).ok()) << plan.name;
  }
  // A step, and a trigger.
  for (const auto& [plan, rule] : {std::pair(in_turn(pair_plan(), 0), "send"), {in_turn(shot_plan(), 1), "sum"}}) {
    EXPECT_TRUE(verify(plan).one_by_one.empty()) << "nobody asked";
    const Verdict verdict = verify(plan, {.lane_order = true});
    ASSERT_TRUE(verdict.ok()) << verdict.problems.front();
    ASSERT_EQ(std::ssize(verdict.one_by_one), plan.num_ranks);
    for (int rank = 0; rank < plan.num_ranks; ++rank) {
      const ActionOf& one = verdict.one_by_one[static_cast<std::size_t>(rank)];
      EXPECT_EQ(one.rank, rank);
      const Program program = Expander(plan).program(rank);
      EXPECT_NE(describe(plan, program, static_cast<std::size_t>(one.action)).find(rule), std::string::npos);
    }
    EXPECT_TRUE(verify(turned_round(plan, verdict.one_by_one)).ok());
  }
  EXPECT_FALSE(verify(turned_round(in_turn(pair_plan(), 0), {})).ok());
}

TEST(Verify, ExpressionsThatCannotBeReadAreBadInput) {
  Plan plan = pair_plan();
  plan.rules[0].targets[0].rank = e("r + 5");
  EXPECT_THROW(verify(plan), Error);
  plan = pair_plan();
  plan.rules[0].signals[0].index = e("nobody");
  EXPECT_THROW(verify(plan), Error);
  plan = pair_plan();
  plan.rules[0].signals[0].index = 1;
  EXPECT_THROW(verify(plan), Error);
}

}  // namespace
}  // namespace weft
