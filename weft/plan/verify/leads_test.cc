// Who raises a counter must be held back by who waits for it, directly or by way of others, and closely enough that
// counters compared modulo 2^32 never lie 2^31 apart.
#include <gtest/gtest.h>

#include "weft/plan/program.h"
#include "weft/plan/rule_words.h"
#include "weft/plan/small_plans_test.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using testing::e;
using testing::rows;
using testing::small_plan;
using testing::small_rule;

constexpr int kTick = 0, kBack = 1;

// Every rank keeps what it makes. In a chain, each but the first waits until the rank before it has begun the run.
Plan chain(int num_ranks, std::int64_t m = 4) {
  Plan plan = small_plan("chain", num_ranks, m);
  plan.buffers = {{"y", Dtype::f32, Role::output, {m, e("n")}, 1, {}}};
  plan.counters = {{"tick", 1, 1}, {"back", 1, 1, Purpose::credit}};
  Rule make = small_rule("make", ActionKind::step, rows("0", "m"));
  make.waits = {wait(kTick).when(e("r > 0"))};
  make.targets = {piece(0, rows("0", "m"))};
  Rule tick = small_rule("tick", ActionKind::trigger);
  tick.when = e("r < N - 1");
  tick.signals = {signal(e("r + 1"), kTick)};
  plan.rules = {make, tick};
  Owed owed;
  owed.piece = piece(0, rows("0", "m"));
  owed.origin = {0, 0};
  owed.first = e("r");
  plan.owed = {owed};
  return plan;
}

// The last rank tells the first that it has begun, which the first waits for `lag` runs later.
Plan ring(int num_ranks, int lag) {
  Plan plan = chain(num_ranks);
  Rule back = small_rule("back", ActionKind::trigger);
  back.when = e("r == N - 1");
  back.signals = {signal(0, kBack)};
  plan.rules.push_back(back);
  plan.rules[1].waits = {wait(kBack).lag(lag).when(e("r == 0"))};
  return plan;
}

void expect_refused(const Plan& plan, const char* says) {
  const Verdict verdict = verify(plan);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.problems[0].find(says), std::string::npos) << verdict.problems[0];
}

TEST(Leads, ARankThatNobodyHoldsBackIsRefused) {
  for (const int ranks : {2, 3, 5}) {
    expect_refused(chain(ranks),
                   "rank 1 waits for tick[0], which rank 0 raises in every run without waiting for rank 1");
    EXPECT_FALSE(verify(written_out(chain(ranks), true)).ok());
  }
}

TEST(Leads, AChainThatComesBackHoldsAllOfItsRanks) {
  for (const int ranks : {2, 3, 5})
    for (const int lag : {1, 2, 7}) {
      const Verdict verdict = verify(ring(ranks, lag));
      EXPECT_TRUE(verdict.ok()) << verdict.problems[0];
    }
}

TEST(Leads, ARankBesideTheRingIsHeldByNobody) {
  Plan plan = ring(4, 1);
  plan.rules[2].when = e("r == 2");  // rank 3 waits for rank 2, which does not wait for it
  expect_refused(plan, "rank 3 waits for tick[0], which rank 2 raises in every run without waiting for rank 3");
}

// What is raised in one run, times the runs that the raiser may be ahead, stays below 2^31.
TEST(Leads, ManySignalsAreHeldCloselyOrRefused) {
  constexpr std::int64_t kSignals = 1 << 16, kRows = 1024;
  const auto raised = [](int lag) {  // in 1024 lanes, each so many times: by 2^26 a run
    Plan plan = chain(2, kRows);
    plan.params.push_back({"signals", kSignals});
    plan.counters[kTick].total = e("1024 * signals");
    plan.rules[0].waits.push_back(wait(kBack).lag(lag).when(e("r == 0")));
    plan.rules[0].signals = {signal(1, kTick).each(e("signals")).when(e("r == 0"))};
    plan.rules[1].when = e("r == 1");
    plan.rules[1].signals = {signal(0, kBack)};
    return plan;
  };
  const Verdict held = verify(raised(29));
  EXPECT_TRUE(held.ok()) << held.problems[0];
  expect_refused(raised(30), "could run ahead by more than 2^31");
}

}  // namespace
}  // namespace weft
