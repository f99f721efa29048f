// Times agree with a clock that ticks, and with the closed forms of the literature.
#include "weft/schedule/timing.h"

#include <algorithm>
#include <chrono>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/schedule/build.h"
#include "weft/schedule/check.h"
#include "weft/schedule/random_test.h"
#include "weft/schedule/ticks_test.h"

namespace weft::pipeline {
namespace {

double makespan(Kind kind, int n, int m, const UniformCosts& costs, int chunks = 2,
                Backward backward = Backward::whole) {
  return timing(build({.kind = kind, .stages = n, .micro_batches = m, .chunks = chunks, .backward = backward}),
                uniform_costs(costs))
      .makespan_s;
}

TEST(Timing, AgreesWithAClockThatTicks) {
  RandomPipeline random(4);
  for (int round = 0; round < 1500; ++round) {
    const BuildOptions o = random.options(6, 10);
    const Schedule schedule = build(o);
    const Costs costs = random.costs(o.stages);
    const auto slow = Ticks(schedule, costs).run();
    ASSERT_TRUE(slow.has_value());
    EXPECT_DOUBLE_EQ(timing(schedule, costs).makespan_s, *slow)
        << to_string(o.kind) << " " << o.stages << " x " << o.micro_batches << " " << to_string(costs.transfers);
  }
}

TEST(Timing, BubbleOfGpipeAndOneFOneB) {
  RandomPipeline random(5);
  for (int round = 0; round < 100; ++round) {
    const int n = random.from(1, 16), m = random.from(1, 64);
    const UniformCosts costs{.stages = n, .forward_s = random.from(1, 5) * 1.0, .backward_s = random.from(1, 9) * 1.0};
    for (const Kind kind : {Kind::gpipe, Kind::one_f_one_b, Kind::eager_1f1b}) {
      const Timing t = timing(build({.kind = kind, .stages = n, .micro_batches = m}), uniform_costs(costs));
      EXPECT_NEAR(t.bubble, (n - 1.0) / (m + n - 1), 1e-12) << to_string(kind) << " " << n << " x " << m;
      EXPECT_NEAR(t.makespan_s, (m + n - 1) * (costs.forward_s + costs.backward_s), 1e-9);
    }
  }
}

TEST(Timing, InterleavingDividesTheBubble) {
  for (const int n : {2, 4, 8})
    for (const int chunks : {1, 2, 3, 4})
      for (const int rounds : {1, 2, 5})
        EXPECT_NEAR(
            makespan(Kind::interleaved_1f1b, n, n * rounds, {.stages = n, .forward_s = 12, .backward_s = 24}, chunks),
            36 * n * rounds + 36.0 * (n - 1) / chunks, 1e-9)
            << n << " stages, " << chunks << " chunks, " << rounds;
}

// With forward, input and weight alike, a third of the bubble of 1f1b is left, at the memory of its first stage.
TEST(Timing, ZeroBubbleLeavesAThirdOfIt) {
  for (const int n : {1, 2, 3, 4, 6, 8})
    for (const int m : {n, 2 * n, 5 * n + 1})
      EXPECT_NEAR(makespan(Kind::zero_bubble, n, m, {.stages = n, .forward_s = 1, .backward_s = 2}), 3 * m + (n - 1),
                  1e-9)
          << n << " x " << m;
}

// A transfer of a third of (forward + backward) between four stages. 1f1b waits for it twice in every turn; eager_1f1b
// has a slot between producer and consumer that hides it.
TEST(EagerOneFOneB, HidesTransfersThatOneFOneBExposes) {
  const UniformCosts costs{.stages = 4, .forward_s = 1, .backward_s = 2, .transfer_s = 1};
  const double plain = makespan(Kind::one_f_one_b, 4, 64, costs), eager = makespan(Kind::eager_1f1b, 4, 64, costs);
  const double none = makespan(Kind::one_f_one_b, 4, 64, {.stages = 4, .forward_s = 1, .backward_s = 2});
  EXPECT_GE(plain / eager, 1.25);
  EXPECT_LE(eager, none + 6 * costs.transfer_s);  // only the way to the last stage and back is left
}

TEST(Timing, BlockingTransfersTakeBothEnds) {
  // One micro-batch: nothing can hide, so it is the critical path, whoever carries.
  const UniformCosts one{.stages = 3, .forward_s = 2, .backward_s = 4, .transfer_s = 5};
  for (const Transfers transfers : {Transfers::overlapped, Transfers::blocking}) {
    UniformCosts costs = one;
    costs.transfers = transfers;
    EXPECT_EQ(makespan(Kind::one_f_one_b, 3, 1, costs), 3 * 6 + 4 * 5);
  }
  // Many: in every turn a stage sends one thing and receives another, at the same time.
  UniformCosts many{.stages = 2, .forward_s = 2, .backward_s = 4, .transfer_s = 3, .transfers = Transfers::blocking};
  EXPECT_NEAR(makespan(Kind::one_f_one_b, 2, 1000, many) / 1000, 9, 0.05);
  many.transfers = Transfers::overlapped;
  EXPECT_NEAR(makespan(Kind::eager_1f1b, 2, 1000, many) / 1000, 6, 0.05);
}

TEST(Timing, ALinkCarriesOneTransferAtATime) {
  const Schedule schedule = build({.kind = Kind::gpipe, .stages = 2, .micro_batches = 4});
  const Timing t = timing(schedule, uniform_costs({.stages = 2, .forward_s = 1, .backward_s = 1, .transfer_s = 10}));
  ASSERT_EQ(t.sends.size(), 8u);
  for (std::size_t i = 1; i < t.sends.size(); ++i)
    EXPECT_TRUE(t.sends[i].from != t.sends[i - 1].from || t.sends[i].sending.begin_s >= t.sends[i - 1].sending.end_s);
  EXPECT_EQ(t.makespan_s, 1 + 40 + 1 + 1 + 40 + 1 - 0);
}

TEST(Timing, SplitBackwardHidesTheGradientsWay) {
  const UniformCosts costs{.stages = 2, .forward_s = 1, .backward_s = 4, .transfer_s = 2};
  EXPECT_LT(makespan(Kind::eager_1f1b, 2, 16, costs, 2, Backward::split), makespan(Kind::eager_1f1b, 2, 16, costs));
}

TEST(Timing, RecomputationHidesBehindTheGradientsWay) {
  Costs costs = uniform_costs({.stages = 2, .forward_s = 2, .backward_s = 4, .transfer_s = 3});
  const Schedule schedule = build({.stages = 2, .micro_batches = 1, .recompute = Recompute::yes});
  // Only the last stage's is in the way: the first recomputes while it waits.
  EXPECT_EQ(timing(schedule, costs).makespan_s, 2 + 3 + 2 + 2 + 4 + 3 + 4);
}

TEST(Timing, RefusesWhatCannotRun) {
  const Schedule schedule = build({.stages = 2, .micro_batches = 2});
  EXPECT_NE(refusal([&] { timing(schedule, uniform_costs({.stages = 3})); }).find("costs of 3 stages"),
            std::string::npos);
  EXPECT_NE(refusal([&] { timing(schedule, uniform_costs({.stages = 2, .forward_s = -1})); }).find("a cost of -1"),
            std::string::npos);
  EXPECT_NE(refusal([&] { timing(schedule, uniform_costs({.stages = 2, .transfer_s = 0.0 / 0.0})); }).find("nan"),
            std::string::npos);
  Schedule broken = schedule;
  broken.stages[1].pop_back();
  EXPECT_NE(refusal([&] { timing(broken, uniform_costs({.stages = 2})); }).find("never does"), std::string::npos);
}

TEST(Timing, SixtyFourStagesByThousandMicroBatchesTakeLessThanASecond) {
#ifdef WEFT_SANITIZED
  GTEST_SKIP() << "sanitizers are slow";
#endif
  for (const Kind kind : kKinds) {
    const Schedule schedule = build({.kind = kind, .stages = 64, .micro_batches = 1024});
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(check(schedule).ok());
    EXPECT_GT(timing(schedule, uniform_costs({.stages = 64, .transfer_s = 0.5})).makespan_s, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1)) << to_string(kind);
  }
}

}  // namespace
}  // namespace weft::pipeline
