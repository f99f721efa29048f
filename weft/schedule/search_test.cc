// The bound lies below everything, the search at or above it and never above the best named schedule; on pipelines so
// small that every order can be tried, bound <= optimum = what is found.
#include "weft/schedule/search.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/schedule/check.h"
#include "weft/schedule/dispatch.h"
#include "weft/schedule/random_test.h"
#include "weft/schedule/timing.h"

namespace weft::pipeline {
namespace {

// All orders of one stage with split backward in which micro-batches are in ascending order and memory suffices.
std::vector<std::vector<WorkItem>> all_orders(int m, int memory) {
  std::vector<std::vector<WorkItem>> out;
  std::vector<WorkItem> items;
  const std::function<void(int, int, int)> extend = [&](int f, int i, int w) {
    if (w == m) return out.push_back(items);
    const auto with = [&](Work work, int b, int f2, int i2, int w2) {
      items.push_back({work, 0, b});
      extend(f2, i2, w2);
      items.pop_back();
    };
    if (f < m && (memory == 0 || f - w < memory)) with(Work::forward, f, f + 1, i, w);
    if (i < f) with(Work::backward_input, i, f, i + 1, w);
    if (w < i) with(Work::backward_weight, w, f, i, w + 1);
  };
  extend(0, 0, 0);
  return out;
}

double optimum(const Costs& costs, int m, int memory) {
  const auto orders = all_orders(m, memory);
  const int n = int_size(costs.stages);
  Timer timer(costs);
  Schedule schedule{.num_micro_batches = m};
  schedule.stages.resize(num(n));
  double best = 1e300;
  const std::function<void(int)> choose = [&](int s) {
    if (s == n) {
      if (const auto seconds = timer.makespan(schedule)) best = std::min(best, *seconds);
      return;
    }
    for (const auto& order : orders) {
      schedule.stages[at(s)] = order;
      choose(s + 1);
    }
  };
  choose(0);
  return best;
}

TEST(Search, FindsTheOptimumOfSmallPipelines) {
  RandomPipeline random(6);
  int tight = 0, rounds = 0;
  for (const auto& [n, m] : {std::pair{1, 3}, {2, 2}, {2, 3}, {3, 2}, {4, 2}}) {
    for (int round = 0; round < 12; ++round, ++rounds) {
      const Costs costs = random.costs(n, 3);
      const int memory = random.from(0, m);
      const double best = optimum(costs, m, memory);
      const SearchResult found =
          search(costs, {.micro_batches = m, .chunks = 1, .memory = memory, .budget = 400'000, .seed = 3});
      EXPECT_LE(found.bound.seconds, best + 1e-9)
          << n << " x " << m << ", memory " << memory << ", " << found.bound.why;
      EXPECT_NEAR(found.seconds, best, 1e-9) << n << " x " << m << ", memory " << memory << ", " << found.found;
      tight += found.bound.seconds > best - 1e-9;
    }
  }
  EXPECT_GT(tight, rounds / 2);  // a bound of nothing would lie below everything too
}

TEST(Bound, LiesBelowEveryScheduleThatIsKnown) {
  RandomPipeline random(7);
  for (int round = 0; round < 1500; ++round) {
    const BuildOptions o = random.options(6, 12);
    const Schedule schedule = build(o);
    const Costs costs = random.costs(o.stages);
    const int memory = static_cast<int>(check(schedule).peak() + 0.999);
    for (const int limit : {0, memory}) {
      const Bound bound =
          lower_bound(costs, {o.micro_batches, schedule.num_chunks, limit, o.recompute == Recompute::yes});
      EXPECT_LE(bound.seconds, timing(schedule, costs).makespan_s * (1 + 1e-12) + 1e-9)
          << to_string(o.kind) << " " << o.stages << " x " << o.micro_batches << ", " << bound.why << ", "
          << to_string(costs.transfers);
    }
  }
}

TEST(Bound, IsReachedWhereTheClosedFormsSaySo) {
  // One micro-batch is a critical path; one stage is its work; gpipe's transfers fill a slow link.
  const Costs three = uniform_costs({.stages = 3, .forward_s = 1, .backward_s = 2, .transfer_s = 5});
  EXPECT_DOUBLE_EQ(lower_bound(three, {.micro_batches = 1}).seconds, 3 + 10 + 3 + 10 + 1);
  EXPECT_DOUBLE_EQ(lower_bound(uniform_costs({.stages = 1}), {.micro_batches = 7}).seconds, 21);
  EXPECT_EQ(lower_bound(three, {.micro_batches = 50}).why.find("link") != std::string::npos, true);
  // With room for one activation the pipeline is serial, and the bound knows it.
  const Costs four = uniform_costs({.stages = 4, .forward_s = 1, .backward_s = 2, .transfer_s = 0.5});
  const SearchResult serial = search(four, {.micro_batches = 6, .memory = 1, .budget = 100'000});
  EXPECT_TRUE(serial.optimal) << serial.seconds << " over " << serial.bound.seconds;
  EXPECT_EQ(serial.bound.why.substr(0, 6), "memory");
}

// Every forward but the first four waits for a release: zero_bubble does that as fast as can be.
TEST(Bound, KnowsThatMemoryIsFilledAgain) {
  const Costs costs = uniform_costs({.stages = 4, .forward_s = 1, .backward_s = 2, .transfer_s = 0.5});
  const Bound bound = lower_bound(costs, {.micro_batches = 8, .memory = 4});
  EXPECT_EQ(bound.why, "refill of stage 0");
  EXPECT_DOUBLE_EQ(bound.seconds,
                   timing(build({.kind = Kind::zero_bubble, .stages = 4, .micro_batches = 8}), costs).makespan_s);
}

// Only chunks divide the bubble that far, and nothing but the named schedules has them.
TEST(Search, KeepsTheBestNamedOneWithoutABudget) {
  const Costs costs = uniform_costs({.stages = 4, .forward_s = 8, .backward_s = 16, .weight_share = 0});
  const SearchResult found = search(costs, {.micro_batches = 8, .chunks = 4, .budget = 1});
  EXPECT_EQ(found.named.front().schedule.num_chunks, 4);
  EXPECT_EQ(found.seconds, found.named.front().seconds);
}

TEST(Search, IsNeverWorseThanTheBestNamedOne) {
  RandomPipeline random(8);
  for (int round = 0; round < 40; ++round) {
    const int n = random.from(1, 6), m = random.from(1, 12);
    const SearchOptions options{.micro_batches = m,
                                .memory = random.from(0, 2 * n),
                                .recompute = random.from(0, 3) == 0 ? Recompute::yes : Recompute::no,
                                .budget = 200'000};
    const Costs costs = random.costs(n);
    const SearchResult found = search(costs, options);
    ASSERT_FALSE(found.named.empty());
    for (const NamedTime& named : found.named)
      EXPECT_LE(found.seconds, named.seconds * (1 + 1e-12)) << named.schedule.name;
    EXPECT_GE(found.seconds, found.bound.seconds * (1 - 1e-12) - 1e-9);
    const Verdict verdict = check(found.schedule);
    ASSERT_TRUE(verdict.ok()) << verdict.problems.front();
    EXPECT_DOUBLE_EQ(timing(found.schedule, costs).makespan_s, found.seconds);
    if (options.memory > 0) {
      EXPECT_LE(verdict.peak(), options.memory);
    }
    EXPECT_EQ(verdict.peak(), found.peak);
  }
}

TEST(Search, BeatsEveryNamedOneWhereNoneFits) {
  // Transfers of half a turn, and memory between that of 1f1b and of eager_1f1b.
  const Costs costs = uniform_costs({.stages = 8, .forward_s = 1, .backward_s = 2, .transfer_s = 1.5});
  const SearchResult found = search(costs, {.micro_batches = 32, .memory = 10});
  EXPECT_LT(found.seconds, 0.97 * found.named.front().seconds);
  EXPECT_LE(found.peak, 10);
}

TEST(Search, OfEightByThirtyTwoTakesLessThanTenSeconds) {
#ifdef WEFT_SANITIZED
  GTEST_SKIP() << "sanitizers are slow";
#endif
  const auto begin = std::chrono::steady_clock::now();
  const SearchResult found =
      search(uniform_costs({.stages = 8, .transfer_s = 0.7}), {.micro_batches = 32, .memory = 8});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_GT(found.looked_at, 1000);
}

TEST(Search, IsTheSameForTheSameSeed) {
  RandomPipeline random(9);
  const Costs costs = random.costs(4);
  const SearchOptions options{.micro_batches = 8, .memory = 5, .budget = 300'000, .seed = 7};
  EXPECT_EQ(search(costs, options).schedule, search(costs, options).schedule);
}

TEST(Dispatch, IsProvedAndKeepsToItsMemory) {
  RandomPipeline random(10);
  for (int round = 0; round < 300; ++round) {
    const int n = random.from(1, 7);
    DispatchOptions options{random.from(1, 12), random.from(1, 6), {}, 0.25 * random.from(0, 4)};
    for (int i = 0; i < n; ++i) options.ahead.push_back(random.from(1, 6));
    const Verdict verdict = check(dispatch(random.costs(n), options));
    ASSERT_TRUE(verdict.ok()) << verdict.problems.front();
    EXPECT_LE(verdict.peak(), options.memory);
  }
}

TEST(Search, RefusesWhatCannotBe) {
  const Costs costs = uniform_costs({.stages = 2});
  EXPECT_NE(refusal([&] { search(costs, {.budget = 0}); }).find("a budget of 0"), std::string::npos);
  EXPECT_NE(refusal([&] { search(costs, {.memory = -3}); }).find("a memory of -3"), std::string::npos);
  EXPECT_NE(refusal([&] { search(Costs{}, {}); }).find("0 stages"), std::string::npos);
  EXPECT_NE(refusal([&] { lower_bound(costs, {.micro_batches = 0}); }).find("0 micro-batches"), std::string::npos);
}

}  // namespace
}  // namespace weft::pipeline
