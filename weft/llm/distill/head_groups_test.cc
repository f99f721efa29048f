#include "weft/llm/distill/head_groups.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/llm/distill/block_weights.h"

namespace weft {
namespace {

std::vector<double> random_distances(std::size_t units, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> distribution(0, 1);
  std::vector<double> out(units * units);
  for (std::size_t i = 0; i < units; ++i)
    for (std::size_t j = 0; j < i; ++j) out[i * units + j] = out[j * units + i] = distribution(engine);
  return out;
}

// Every order of the units, cut at the sizes: slow, and sees all partitions.
double largest_by_all_orders(const std::vector<double>& distances, const std::vector<std::int64_t>& sizes) {
  std::vector<std::size_t> order(num(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0})));
  std::iota(order.begin(), order.end(), std::size_t{0});
  double best = -1;
  do {
    double sum = 0;
    std::size_t begin = 0;
    for (const std::int64_t size : sizes) {
      for (std::size_t a = begin; a < begin + num(size); ++a)
        for (std::size_t b = begin; b < a; ++b) sum += distances[order[a] * order.size() + order[b]];
      begin += num(size);
    }
    best = std::max(best, sum);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

void expect_partition(const HeadGroups& found, const std::vector<std::int64_t>& sizes) {
  std::vector<int> all;
  ASSERT_EQ(found.groups.size(), sizes.size());
  for (std::size_t g = 0; g < sizes.size(); ++g) {
    EXPECT_EQ(std::ssize(found.groups[g]), sizes[g]);
    all.insert(all.end(), found.groups[g].begin(), found.groups[g].end());
  }
  std::sort(all.begin(), all.end());
  for (int i = 0; i < int_size(all); ++i) EXPECT_EQ(all[at(i)], i);
}

TEST(HeadGroups, AreThePartitionOfLargestDistance) {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{2, 2, 2, 2}, {4, 4}, {1, 2, 3}, {0, 3, 0, 4}, {1, 1, 1, 1, 1}, {3, 2, 3}})
    for (unsigned seed = 0; seed < 3; ++seed) {
      const auto units = num(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
      const std::vector<double> distances = random_distances(units, seed);
      const HeadGroups found = group_heads(distances, sizes);
      expect_partition(found, sizes);
      EXPECT_TRUE(found.exact);
      EXPECT_NEAR(found.distance, largest_by_all_orders(distances, sizes), 1e-12);
    }
}

TEST(HeadGroups, BeyondEightHeadsNoSwapHelps) {
  const std::vector<std::int64_t> sizes = {4, 4, 4, 4};
  const std::vector<double> distances = random_distances(16, 5);
  const HeadGroups found = group_heads(distances, sizes);
  expect_partition(found, sizes);
  const auto sum = [&](const std::vector<std::vector<int>>& groups) {
    double total = 0;
    for (const auto& group : groups)
      for (const int a : group)
        for (const int b : group) total += a < b ? distances[at(a * 16 + b)] : 0;
    return total;
  };
  EXPECT_NEAR(found.distance, sum(found.groups), 1e-12);
  for (std::size_t g = 0; g < 4; ++g)
    for (std::size_t h = 0; h < g; ++h)
      for (std::size_t i = 0; i < 4; ++i)
        for (std::size_t j = 0; j < 4; ++j) {
          auto swapped = found.groups;
          std::swap(swapped[g][i], swapped[h][j]);
          EXPECT_LE(sum(swapped), found.distance + 1e-12);
        }
}

TEST(HeadGroups, DistancesOfUnitsAreSumsOverTheirHeads) {
  const std::vector<float> vectors = {0, 0, 3, 4, 0, 1, 0, 0};  // four heads of width 2
  const std::vector<double> alone = unit_distances(4, 1, 2, vectors);
  EXPECT_NEAR(alone[0 * 4 + 1], 5, 1e-9);
  EXPECT_NEAR(alone[0 * 4 + 3], 0, 1e-9);
  const std::vector<double> pairs = unit_distances(4, 2, 2, vectors);
  EXPECT_NEAR(pairs[0 * 2 + 1], 1 + 0 + std::sqrt(18.0) + 5, 1e-6);
  EXPECT_EQ(pairs[0], 0);
}

TEST(Assignment, IsTheLargestOfAll) {
  for (int n = 1; n <= 6; ++n)
    for (unsigned seed = 0; seed < 8; ++seed) {
      std::mt19937 engine(seed);
      std::uniform_real_distribution<double> distribution(-1, 1);
      std::vector<double> values(num(n * n));
      for (double& value : values) value = distribution(engine);
      for (int i = 0; i < n && seed % 2 == 1; ++i)  // pairs that must not be, with one way left
        values[at(i * n + (i + 1) % n)] = n > 1 ? -std::numeric_limits<double>::infinity() : 0;
      std::vector<int> order(num(n));
      std::iota(order.begin(), order.end(), 0);
      const auto sum = [&](const std::vector<int>& columns) {
        double total = 0;
        for (int i = 0; i < n; ++i) total += values[at(i * n + columns[at(i)])];
        return total;
      };
      double best = -std::numeric_limits<double>::infinity();
      do best = std::max(best, sum(order));
      while (std::next_permutation(order.begin(), order.end()));
      EXPECT_NEAR(sum(largest_assignment(n, values)), best, 1e-12) << n << " seed " << seed;
    }
}

TEST(HeadGroups, FollowTheShardsAndKeepKeyValueHeadsWhole) {
  ModelConfig config{.hidden = 8, .heads = 8, .kv_heads = 8, .head_dim = 4, .intermediate = 16};
  EXPECT_EQ(units_of_ranks(config, 4), (std::vector<std::int64_t>{2, 2, 2, 2}));
  EXPECT_EQ(units_of_ranks(config, 3), (std::vector<std::int64_t>{2, 3, 3}));
  config.kv_heads = 4;
  EXPECT_EQ(units_of_ranks(config, 2), (std::vector<std::int64_t>{2, 2}));
  EXPECT_TRUE(units_of_ranks(config, 8).empty());  // ranks share key/value heads
  EXPECT_TRUE(units_of_ranks(config, 3).empty());
}

}  // namespace
}  // namespace weft
