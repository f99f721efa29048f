#include "weft/base/statistics.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Statistics, MedianOfAnEvenNumberIsTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({9, 1, 3, 4}), 3.5);
}

TEST(Statistics, QuantilesReachFromTheLeastToTheLargest) {
  const std::vector<double> values{5, 3, 1, 2, 4, 6};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 1.0 / 3), 3);
  EXPECT_EQ(quantile(values, 1), 6);
  EXPECT_EQ(quantile({7}, 0.5), 7);
}

TEST(Statistics, GeomeanOfARatioAndItsInverseIsOne) {
  EXPECT_DOUBLE_EQ(geomean({4, 0.25}), 1);
  EXPECT_DOUBLE_EQ(geomean({2, 8}), 4);
}

TEST(Statistics, BandIsTheDifferenceOfMediansEitherWay) {
  EXPECT_DOUBLE_EQ(aa_band({11, 9, 10}, {8, 8, 8}), 0.25);
  EXPECT_DOUBLE_EQ(aa_band({8}, {10}), 0.2);
  EXPECT_EQ(aa_band({3, 3}, {3}), 0);
}

}  // namespace
}  // namespace weft
