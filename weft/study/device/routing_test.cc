#include "weft/study/device/routing.h"

#include <numeric>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/cluster/workload.h"

namespace weft {
namespace {

std::int64_t all_of(const RoutedRows& drawn) {
  return std::accumulate(drawn.rows.begin(), drawn.rows.end(), std::int64_t{0});
}

TEST(Routing, EveryChoiceOfATokenIsARowSomewhere) {
  for (const double skew : {0.0, 0.3, 3.0}) {
    const Routing routing{"", 16, 4, 500, skew};
    const RoutedRows drawn = drawn_rows(routing, 4, 1);
    EXPECT_EQ(all_of(drawn) + drawn.dropped, 4 * 500 * 4) << skew;
    for (const std::int64_t rows : drawn.rows) EXPECT_LE(rows, capacity_of(routing, 4)) << skew;
    EXPECT_EQ(drawn.rows, drawn_rows(routing, 4, 1).rows) << skew;
    EXPECT_NE(drawn.rows, drawn_rows(routing, 4, 2).rows) << skew;
  }
}

// 2000 tokens choose 2 of 8: a rank with 2 experts expects 1000 rows of each, and half a standard deviation is 10.
TEST(Routing, AlikeExpertsAreEvenlyLoadedAndSkewedOnesAreNot) {
  const Routing alike{"", 8, 2, 2000, 0}, skewed{"", 8, 2, 2000, 0.3};
  const RoutedRows even = drawn_rows(alike, 4, 3), uneven = drawn_rows(skewed, 4, 3);
  for (const std::int64_t rows : even.rows) EXPECT_NEAR(static_cast<double>(rows), 1000, 120);
  EXPECT_EQ(even.dropped + uneven.dropped, 0);
  EXPECT_EQ(uneven.busiest(4), uneven.of_rank(0, 4));
  EXPECT_GT(uneven.of_rank(0, 4), uneven.of_rank(3, 4) * 5 / 4);
  EXPECT_GT(uneven.busiest(4), even.busiest(4));
}

// A token never chooses an expert twice: with as many choices as experts all are chosen.
TEST(Routing, ATokenChoosesDifferentExperts) {
  const RoutedRows drawn = drawn_rows({"", 8, 8, 100, 2.0}, 4, 5);
  for (const std::int64_t rows : drawn.rows) EXPECT_EQ(rows, 200);
}

TEST(Routing, WhatIsBeyondTheCapacityIsDropped) {
  const Routing routing{"", 8, 1, 1000, 4};
  const RoutedRows drawn = drawn_rows(routing, 8, 1);
  EXPECT_EQ(capacity_of(routing, 8), 250);
  EXPECT_EQ(drawn.rows[0], 250);
  EXPECT_GT(drawn.dropped, 8 * 500);
  EXPECT_EQ(capacity_of({"", 8, 2, 1000, 0}, 1), 2000) << "one rank makes every row";
}

TEST(Routing, IsThatOfAWorkloadWithExperts) {
  const Routing routing = routing_of(load_workload("mixtral-8x7b"), 4, 64, 0.5);
  EXPECT_EQ(routing.experts, 8);
  EXPECT_EQ(routing.top_k, 2);
  EXPECT_EQ(refusal([] { routing_of(load_workload("t-nlg"), 4, 64, 0); }),
            "--workload t-nlg has no experts; use mixtral-8x7b or deepseek-v3-moe");
  EXPECT_EQ(refusal([] { routing_of(load_workload("mixtral-8x7b"), 3, 64, 0); }),
            "--ranks is 3, which cannot share 8 experts; use a number that divides them");
  EXPECT_EQ(refusal([] { routing_of(load_workload("mixtral-8x7b"), 4, 64, -1); }),
            "--skew is -1; use 0 (all experts alike) to 4");
  EXPECT_EQ(refusal([] { routing_of(load_workload("mixtral-8x7b"), 4, 0, 0); }), "--tokens is 0; use 1 to 1048576");
}

}  // namespace
}  // namespace weft
