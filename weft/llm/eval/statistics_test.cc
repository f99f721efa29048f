#include "weft/llm/eval/statistics.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

TEST(Statistics, WilsonAgreesWithPublishedValues) {
  const Interval few = wilson(0, 10);  // Brown, Cai, DasGupta: [0, 0.2775] for 0 of 10
  EXPECT_DOUBLE_EQ(few.low, 0);
  EXPECT_NEAR(few.high, 0.2775, 1e-4);
  const Interval half = wilson(81, 263);  // Newcombe 1998, table I: 0.2553 to 0.3662
  EXPECT_NEAR(half.low, 0.2553, 1e-4);
  EXPECT_NEAR(half.high, 0.3662, 1e-4);
  EXPECT_EQ(wilson(0, 0).high, 1);
}

TEST(Statistics, McNemarIsTheBinomialTest) {
  EXPECT_DOUBLE_EQ(mcnemar_exact(0, 0), 1);
  EXPECT_NEAR(mcnemar_exact(0, 5), 2.0 / 32, 1e-12);
  EXPECT_NEAR(mcnemar_exact(5, 0), 2.0 / 32, 1e-12);
  EXPECT_NEAR(mcnemar_exact(1, 6), 2.0 * 8 / 128, 1e-12);
  EXPECT_NEAR(mcnemar_exact(3, 3), 1, 1e-12);
  EXPECT_LT(mcnemar_exact(400, 600), 1e-9);
}

TEST(Statistics, PerplexityIsExpOfTheMeanLoss) {
  const std::vector<WindowScore> windows = {{-3 * std::log(8.0), 3}, {-std::log(8.0), 1}};
  EXPECT_NEAR(perplexity(windows), 8, 1e-12);
  EXPECT_NEAR(perplexity_interval(windows).low, 8, 1e-9);
  EXPECT_NE(refusal([] { perplexity({}); }).find("no token was scored"), std::string::npos);
}

// The interval must hold the truth about 95 times in 100: 400 samples of 60 windows whose mean loss is known.
TEST(Statistics, TheBootstrapIntervalCoversTheTruth) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> loss(2.0, 0.4);
  int covered = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<WindowScore> windows(60);
    for (WindowScore& window : windows) window = {-100 * loss(random), 100};
    const Interval interval = perplexity_interval(windows);
    covered += interval.low <= std::exp(2.0) && std::exp(2.0) <= interval.high;
  }
  EXPECT_GE(covered, 400 * 0.90);
  EXPECT_LE(covered, 400 * 0.985);
}

TEST(Statistics, PairingSeesASmallLossBehindAnyNoise) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> loss(3.0, 0.5), extra(0.01, 0.005);
  std::vector<WindowScore> first(100), second(100);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const double mean = loss(random);
    first[i] = {-1000 * mean, 1000};
    second[i] = {-1000 * (mean + extra(random)), 1000};
  }
  const PairedLoss paired = paired_loss(first, second);
  EXPECT_NEAR(paired.loss, 0.01, 0.003);
  EXPECT_GT(paired.interval.low, 0.005);
  EXPECT_LT(paired.interval.high, 0.015);
  EXPECT_LE(paired.p, 0.001);
  EXPECT_GT(perplexity_interval(first).high, perplexity(second)) << "unpaired, it drowns";
  EXPECT_EQ(paired_loss(first, first).p, 1);
  EXPECT_EQ(paired_loss(first, first).loss, 0);
}

TEST(Statistics, PairedAccuracyCountsDiscordantItems) {
  std::vector<bool> first(100, true), second(100, true);
  for (std::size_t i = 0; i < 12; ++i) second[i] = false;
  for (std::size_t i = 12; i < 15; ++i) first[i] = false;
  const PairedAccuracy paired = paired_accuracy(first, second);
  EXPECT_EQ(paired.only_first, 12);
  EXPECT_EQ(paired.only_second, 3);
  EXPECT_NEAR(paired.difference, -0.09, 1e-12);
  EXPECT_NEAR(paired.p, mcnemar_exact(12, 3), 1e-12);
  EXPECT_LT(paired.interval.high, 0);
  EXPECT_GT(paired.interval.low, -0.2);
}

TEST(Statistics, IntervalsHoldTheirShareAndNarrowWithItems) {
  double before = 1;
  for (const std::int64_t items : {1, 10, 100, 1000, 10000}) {
    for (std::int64_t right = 0; right <= items; right += std::max<std::int64_t>(1, items / 10)) {
      const Interval interval = wilson(right, items), other = wilson(items - right, items);
      const double share = static_cast<double>(right) / items;
      EXPECT_LE(interval.low, share + 1e-12);
      EXPECT_GE(interval.high, share - 1e-12);
      EXPECT_GE(interval.low, 0);
      EXPECT_LE(interval.high, 1);
      EXPECT_NEAR(interval.low, 1 - other.high, 1e-12) << "wrong is the mirror of right";
    }
    const Interval half = wilson(items / 2, items);
    EXPECT_LT(half.high - half.low, before);
    before = half.high - half.low;
  }
}

TEST(Statistics, TheSameRunTwiceIsNoLoss) {
  std::vector<WindowScore> windows;
  for (int i = 0; i < 20; ++i) windows.push_back({-10.0 - i, 10});
  const PairedLoss loss = paired_loss(windows, windows);
  EXPECT_EQ(loss.loss, 0);
  EXPECT_EQ(loss.interval.low, 0);
  EXPECT_EQ(loss.interval.high, 0);
  EXPECT_EQ(loss.p, 1);
  EXPECT_EQ(paired_accuracy({true, false}, {true, false}).p, 1);
}

TEST(Statistics, ALossTurnsItsSignWithTheOrder) {
  std::vector<WindowScore> first, second;
  for (int i = 0; i < 30; ++i) first.push_back({-20.0 - i % 3, 10}), second.push_back({-21.0 - i % 3, 10});
  const PairedLoss worse = paired_loss(first, second), better = paired_loss(second, first);
  EXPECT_GT(worse.loss, 0);
  EXPECT_GT(worse.interval.low, 0);
  EXPECT_NEAR((1 + worse.loss) * (1 + better.loss), 1, 1e-12);
  EXPECT_LT(worse.p, 0.01);
}

TEST(Statistics, WhatCannotBePairedIsRefused) {
  const std::vector<WindowScore> one{{-1, 1}}, two{{-1, 1}, {-1, 1}};
  EXPECT_NE(refusal([&] { paired_loss(one, two); }).find("1 and 2 windows cannot be paired"), std::string::npos);
  EXPECT_NE(refusal([&] { paired_loss({}, {}); }), "did not throw");
  EXPECT_NE(refusal([&] { paired_accuracy({true}, {}); }).find("1 and 0 items cannot be paired"), std::string::npos);
  EXPECT_NE(refusal([&] { perplexity_interval({}); }).find("no window was scored"), std::string::npos);
}

}  // namespace
}  // namespace weft
