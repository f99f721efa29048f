// Items of divided demands: they add up, stay within what bins can serve, and few are cut.
#include "weft/reshard/bound/assign.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "weft/reshard/bound/demands_test.h"

namespace weft {
namespace {

// Each demand cut into a few items of random sizes.
std::vector<Item> random_items(const Given& given, std::mt19937& random) {
  std::vector<Item> items;
  for (int d = 0; d < int_size(given.demands); ++d) {
    double left = given.demands[at(d)].amount;
    for (int more = std::uniform_int_distribution<int>(0, 4)(random); more > 0; --more) {
      const double size = left * std::uniform_real_distribution<double>(0.05, 0.9)(random);
      items.push_back({d, size});
      left -= size;
    }
    items.push_back({d, left});
  }
  std::shuffle(items.begin(), items.end(), random);
  return items;
}

TEST(Assign, SpansAddUpAndNoBinServesMoreThanItCan) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const Given given = random_demands(random);
    const Division division = divide(given.demands, given.rates);
    const std::vector<Item> items = random_items(given, random);
    const auto spans = assign(items, given.demands, division, given.rates);
    ASSERT_EQ(spans.size(), items.size());
    std::vector<double> load(given.rates.size(), 0.0);
    std::size_t cut = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::vector<int>& bins = given.demands[at(items[i].demand)].bins;
      double sum = 0;
      for (const Span& span : spans[i]) {
        EXPECT_TRUE(std::binary_search(bins.begin(), bins.end(), span.bin)) << span.bin;
        EXPECT_GT(span.size, 0);
        load[at(span.bin)] += span.size;
        sum += span.size;
      }
      EXPECT_NEAR(sum, items[i].size, 1e-9 * items[i].size);
      cut += spans[i].size() - 1;
    }
    for (std::size_t b = 0; b < load.size(); ++b) EXPECT_LE(load[b], division.time * given.rates[b] * (1 + 1e-6));
    // A demand on k bins needs at most k - 1 cuts, and all of them together one less than there are bins (flow.h).
    EXPECT_LT(cut, given.demands.size() + given.rates.size());
  }
}

TEST(Assign, TheSameItemsAreAssignedTheSameWay) {
  std::mt19937 random(6);
  const Given given = random_demands(random);
  const Division division = divide(given.demands, given.rates);
  const std::vector<Item> items = random_items(given, random);
  const auto once = assign(items, given.demands, division, given.rates);
  const auto again = assign(items, given.demands, division, given.rates);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ASSERT_EQ(once[i].size(), again[i].size());
    for (std::size_t s = 0; s < once[i].size(); ++s) {
      EXPECT_EQ(once[i][s].bin, again[i][s].bin);
      EXPECT_EQ(once[i][s].size, again[i][s].size);
    }
  }
}

// Time to spare keeps whole what would be cut: one bin has room for all of it.
TEST(Assign, RoomToSpareKeepsItemsWhole) {
  const std::vector<Demand> demands{{{0, 1}, 6}};
  const std::vector<double> rates{1, 1};
  const std::vector<Item> item{{0, 6}};
  EXPECT_EQ(assign(item, demands, divide(demands, rates), rates)[0].size(), 2u);
  const auto whole = assign(item, demands, divide(demands, rates, 6), rates);
  ASSERT_EQ(whole[0].size(), 1u);
  EXPECT_EQ(whole[0][0].size, 6);
}

}  // namespace
}  // namespace weft
