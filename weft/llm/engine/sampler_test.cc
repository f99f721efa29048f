// Properties of the sampler that hold for any logits.
#include "weft/llm/engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"

namespace weft {
namespace {

std::vector<float> random_logits(std::size_t count, unsigned seed, float spread = 4) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

std::set<int> picked(const SamplerOptions& options, const std::vector<float>& logits, int draws = 3000) {
  Sampler sampler(options);
  std::set<int> tokens;
  for (int step = 0; step < draws; ++step) tokens.insert(sampler.pick(logits, 0, step));
  return tokens;
}

// Tokens by falling logit, the smaller first of equals.
std::vector<int> by_probability(const std::vector<float>& logits) {
  std::vector<int> order(logits.size());
  for (int i = 0; i < int_size(order); ++i) order[at(i)] = i;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[at(a)] > logits[at(b)]; });
  return order;
}

TEST(Sampler, ZeroTemperatureIsTheLargestLogitAndTheSmallestTokenOfEquals) {
  const auto logits = random_logits(500, 1);
  Sampler greedy({.temperature = 0});
  EXPECT_TRUE(greedy.is_greedy());
  for (int step = 0; step < 20; ++step)
    EXPECT_EQ(greedy.pick(logits, step, step), std::max_element(logits.begin(), logits.end()) - logits.begin());
  EXPECT_EQ(greedy.pick(std::vector<float>{1, 3, 3, 2}, 0, 0), 1);
}

TEST(Sampler, TopKNeverLeavesTheKMostProbable) {
  const auto logits = random_logits(1000, 2, 0.5f);
  const auto order = by_probability(logits);
  for (const int k : {1, 2, 7, 300}) {
    const std::set<int> allowed(order.begin(), order.begin() + k);
    const auto seen = picked({.temperature = 1, .top_k = k}, logits);
    EXPECT_TRUE(std::includes(allowed.begin(), allowed.end(), seen.begin(), seen.end())) << k;
    if (k <= 7) {
      EXPECT_EQ(seen.size(), at(k)) << "3000 draws see them all";
    }
  }
}

TEST(Sampler, TopKBeyondTheVocabularyIsAllOfIt) {
  const auto logits = random_logits(4, 3, 0.1f);
  EXPECT_EQ(picked({.temperature = 1, .top_k = 1000}, logits), (std::set<int>{0, 1, 2, 3}));
}

// The fewest tokens that have the probability together: with one less they have not.
TEST(Sampler, TopPIsTheSmallestSetThatHasTheProbability) {
  for (const float spread : {0.2f, 1.0f, 4.0f})
    for (const double top_p : {0.05, 0.5, 0.9}) {
      const auto logits = random_logits(700, 4, spread);
      const auto order = by_probability(logits);
      double total = 0, sum = 0;
      for (const float logit : logits) total += std::exp(static_cast<double>(logit));
      std::set<int> allowed;
      for (std::size_t i = 0; sum < top_p * total; ++i) {
        sum += std::exp(static_cast<double>(logits[at(order[i])]));
        allowed.insert(order[i]);
      }
      const auto seen = picked({.temperature = 1, .top_p = top_p}, logits);
      EXPECT_TRUE(std::includes(allowed.begin(), allowed.end(), seen.begin(), seen.end()))
          << "spread " << spread << ", top-p " << top_p;
      EXPECT_TRUE(seen.count(order[0])) << "the most probable one is among them";
    }
}

TEST(Sampler, ATokenOfNoProbabilityIsNeverPicked) {
  const float none = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(picked({.temperature = 5}, {none, 0.f, none, 0.5f, none}), (std::set<int>{1, 3}));
}

TEST(Sampler, HugeLogitsDoNotOverflow) {
  EXPECT_EQ(picked({.temperature = 1}, {3e38f, -3e38f, 3e38f}), (std::set<int>{0, 2}));
  EXPECT_EQ(picked({.temperature = 1e-3}, {1000.f, 999.f}), (std::set<int>{0}));
}

TEST(Sampler, ADrawDependsOnSeedSequenceAndStepAlone) {
  const auto logits = random_logits(200, 5, 0.5f);
  const SamplerOptions options{.temperature = 1, .seed = 9};
  Sampler used(options);
  for (int step = 0; step < 50; ++step) used.pick(logits, 3, step);
  std::set<int> sequences, steps;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(used.pick(logits, i, 7), Sampler(options).pick(logits, i, 7)) << "what was drawn before does not matter";
    sequences.insert(used.pick(logits, i, 7));
    steps.insert(used.pick(logits, 7, i));
  }
  EXPECT_GT(sequences.size(), 10u);
  EXPECT_GT(steps.size(), 10u);
}

TEST(Sampler, RefusesWhatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(refusal([&] { check_sampler({.temperature = nan}); }).find("use 0 to 1000"), std::string::npos);
  EXPECT_NE(refusal([&] { check_sampler({.temperature = 1001}); }).find("temperature is 1001"), std::string::npos);
  EXPECT_NE(refusal([&] { check_sampler({.top_p = nan}); }).find("top-p"), std::string::npos);
  EXPECT_NE(refusal([&] { check_sampler({.top_p = 1.01}); }).find("top-p is 1.01"), std::string::npos);
}

}  // namespace
}  // namespace weft
