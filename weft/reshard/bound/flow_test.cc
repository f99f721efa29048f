#include "weft/reshard/bound/flow.h"

#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/reshard/bound/assign.h"
#include "weft/reshard/bound/demands_test.h"

namespace weft {
namespace {

// By definition: the most that any set of demands asks of all the bins that may serve it.
double time_by_subsets(const std::vector<Demand>& demands, const std::vector<double>& rates) {
  double time = 0;
  for (unsigned set = 1; set < 1u << demands.size(); ++set) {
    double amount = 0, rate = 0;
    unsigned bins = 0;
    for (std::size_t d = 0; d < demands.size(); ++d) {
      if (!(set >> d & 1u)) continue;
      amount += demands[d].amount;
      for (const int bin : demands[d].bins) bins |= 1u << bin;
    }
    for (std::size_t b = 0; b < rates.size(); ++b)
      if (bins >> b & 1u) rate += rates[b];
    time = std::max(time, amount / rate);
  }
  return time;
}

TEST(Flow, TheTimeIsThatOfTheHardestSetOfDemands) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const Given given = random_demands(random);
    const Division division = divide(given.demands, given.rates);
    EXPECT_NEAR(division.time, time_by_subsets(given.demands, given.rates), 1e-9 * division.time);
    std::vector<double> load(given.rates.size(), 0.0);
    std::size_t positive = 0;
    for (std::size_t d = 0; d < given.demands.size(); ++d) {
      EXPECT_NEAR(std::accumulate(division.share[d].begin(), division.share[d].end(), 0.0), given.demands[d].amount,
                  1e-6);
      for (std::size_t i = 0; i < division.share[d].size(); ++i) {
        EXPECT_GE(division.share[d][i], 0);
        positive += division.share[d][i] > 1e-9;
        load[at(given.demands[d].bins[i])] += division.share[d][i];
      }
    }
    for (std::size_t b = 0; b < load.size(); ++b) EXPECT_LE(load[b], division.time * given.rates[b] * (1 + 1e-9));
    EXPECT_LT(positive, given.demands.size() + given.rates.size()) << "the shares have a cycle";
  }
}

TEST(Flow, ATimeThatIsGivenIsKept) {
  const Division division = divide({{{0, 1}, 6}}, {1, 1}, 10);
  EXPECT_EQ(division.time, 10);
  EXPECT_EQ(std::max(division.share[0][0], division.share[0][1]), 6);  // one bin has room for all of it
}

TEST(Flow, ItemsStayWholeWhereTheyFit) {
  const std::vector<Demand> demands{{{0, 1}, 8}, {{0}, 2}};
  const std::vector<double> rates{1, 1};
  const Division division = divide(demands, rates);
  EXPECT_EQ(division.time, 5);
  const auto cut = assign({{0, 4}, {0, 4}, {1, 2}}, demands, division, rates);
  EXPECT_EQ(cut[0].size() + cut[1].size(), 3u);  // 3 + 1 and 4
  const auto whole = assign({{0, 3}, {0, 5}, {1, 2}}, demands, division, rates);
  for (const auto& spans : whole) EXPECT_EQ(spans.size(), 1u);
}

}  // namespace
}  // namespace weft
