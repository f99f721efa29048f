// Shares without cycles: what bins serve and what demands get stays as it was.
#include "weft/reshard/bound/flow_cycles.h"

#include <numeric>

#include <gtest/gtest.h>

#include "weft/reshard/bound/demands_test.h"

namespace weft {
namespace {

using Shares = std::vector<std::vector<double>>;

std::vector<double> served(const Given& given, const Shares& share) {
  std::vector<double> load(given.rates.size(), 0.0);
  for (std::size_t d = 0; d < share.size(); ++d)
    for (std::size_t i = 0; i < share[d].size(); ++i) load[at(given.demands[d].bins[i])] += share[d][i];
  return load;
}

// Demands and bins are the nodes of a graph, positive shares its edges: joins them one by one and says whether an edge
// ever joins what was joined before.
bool has_cycle(const Given& given, const Shares& share) {
  std::vector<std::size_t> parent(given.demands.size() + given.rates.size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto root = [&](std::size_t node) {
    while (parent[node] != node) node = parent[node];
    return node;
  };
  for (std::size_t d = 0; d < share.size(); ++d)
    for (std::size_t i = 0; i < share[d].size(); ++i) {
      if (share[d][i] <= 0) continue;
      const std::size_t a = root(d), b = root(given.demands.size() + at(given.demands[d].bins[i]));
      if (a == b) return true;
      parent[a] = b;
    }
  return false;
}

// Every demand spread over all its bins, by random weights.
Shares spread_out(const Given& given, std::mt19937& random) {
  std::uniform_real_distribution<double> weight(0.1, 1);
  Shares share;
  for (const Demand& demand : given.demands) {
    std::vector<double>& mine = share.emplace_back();
    for (std::size_t i = 0; i < demand.bins.size(); ++i) mine.push_back(weight(random));
    const double sum = std::accumulate(mine.begin(), mine.end(), 0.0);
    for (double& part : mine) part *= demand.amount / sum;
  }
  return share;
}

TEST(FlowCycles, ASquareBecomesAPath) {
  const Given given{{{{0, 1}, 4}, {{0, 1}, 4}}, {1, 1}};
  Shares share{{1, 3}, {3, 1}};
  ASSERT_TRUE(has_cycle(given, share));
  cancel_cycles(given.demands, given.rates.size(), share);
  EXPECT_FALSE(has_cycle(given, share));
  EXPECT_EQ(served(given, share), (std::vector<double>{4, 4}));
}

TEST(FlowCycles, WhatHasNoneStaysAsItIs) {
  const Given given{{{{0, 1}, 4}, {{1, 2}, 5}}, {1, 1, 1}};
  const Shares before{{1, 3}, {2, 3}};
  Shares share = before;
  cancel_cycles(given.demands, given.rates.size(), share);
  EXPECT_EQ(share, before);
}

TEST(FlowCycles, RandomSharesLoseTheirCyclesAndNothingElse) {
  std::mt19937 random(11);
  int cyclic = 0;
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const Given given = random_demands(random);
    Shares share = spread_out(given, random);
    const std::vector<double> before = served(given, share);
    cyclic += has_cycle(given, share);
    cancel_cycles(given.demands, given.rates.size(), share);
    EXPECT_FALSE(has_cycle(given, share));
    const std::vector<double> after = served(given, share);
    for (std::size_t b = 0; b < before.size(); ++b) EXPECT_NEAR(after[b], before[b], 1e-9 * (1 + before[b]));
    for (std::size_t d = 0; d < share.size(); ++d) {
      EXPECT_NEAR(std::accumulate(share[d].begin(), share[d].end(), 0.0), given.demands[d].amount, 1e-8);
      for (const double part : share[d]) EXPECT_GE(part, 0);
    }
  }
  EXPECT_GT(cyclic, 100) << "many of them had one";
}

}  // namespace
}  // namespace weft
