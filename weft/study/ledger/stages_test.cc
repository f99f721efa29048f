// What a block does between its products, and how much memory it asks for.
#include "weft/study/ledger/stages.h"

#include <cmath>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/kernel/reference.h"
#include "weft/study/input/values.h"
#include "weft/study/ledger/sample_check.h"

namespace weft {
namespace {

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(value_at(7, i));
  return out;
}

TEST(Stages, AResultInPiecesBecomesOneMatrix) {
  const std::vector<float> left{1, 2, 3, 4}, right{5, 6};  // (2, 2) beside (2, 1)
  std::vector<float> room(6);
  EXPECT_EQ(as_one({{{left.data(), 2, 2}, 0, 0}, {{right.data(), 2, 1}, 0, 2}}, 3, room.data()), room.data());
  EXPECT_EQ(room, (std::vector<float>{1, 2, 5, 3, 4, 6}));
  EXPECT_EQ(as_one({{{left.data(), 2, 2}, 0, 0}}, 2, room.data()), left.data());  // where it lies
}

TEST(Stages, AddToLeavesOutRowsThatPadAResult) {
  const std::vector<float> made{1, 2, 3, 4, 9, 9}, x{10, 20, 30, 40};
  std::vector<float> out(4, -1);
  add_to({{{made.data(), 3, 2}, 0, 0}}, x.data(), {2, 2}, out.data());
  EXPECT_EQ(out, (std::vector<float>{11, 22, 33, 44}));
}

TEST(Stages, UnitRowsHaveAMeanSquareOfOne) {
  const std::vector<float> x = numbers(3 * 40);
  std::vector<float> room(x.size());
  const float* y = unit_rows_of(x.data(), {3, 40}, room.data())();
  for (int row = 0; row < 3; ++row) {
    double squares = 0;
    for (int col = 0; col < 40; ++col) squares += static_cast<double>(y[row * 40 + col]) * y[row * 40 + col];
    EXPECT_NEAR(squares / 40, 1, 1e-3);
  }
}

// A rank with two heads and half of a third: that one is as wide as what is left of it.
TEST(Stages, AttentionOfAPartOfAHeadIsThatOfANarrowerOne) {
  constexpr std::int64_t kRows = 6, kDim = 8, kCols = 20, kLd = 3 * kCols;
  const std::vector<float> qkv = numbers(2 * kRows * kLd);
  std::vector<float> y(2 * kRows * kCols);
  attention_over({2 * kRows, kRows, kCols, kCols, kDim})(qkv.data(), y.data());
  for (const std::int64_t first : {std::int64_t{0}, kRows}) {  // two sequences
    const float* q = qkv.data() + first * kLd;
    std::vector<double> whole(kRows * 2 * kDim), rest(kRows * 4);
    attention_f64({kRows, 2, 2, kDim, kDim, kLd, kLd, kLd, 2 * kDim}, q, q + kCols, q + 2 * kCols, whole.data());
    attention_f64({kRows, 1, 1, 4, 4, kLd, kLd, kLd, 4}, q + 16, q + kCols + 16, q + 2 * kCols + 16, rest.data());
    for (std::int64_t i = 0; i < kRows; ++i)
      for (std::int64_t j = 0; j < kCols; ++j)
        EXPECT_NEAR(y[at((first + i) * kCols + j)], j < 16 ? whole[at(i * 16 + j)] : rest[at(i * 4 + j - 16)], 1e-5);
  }
}

TEST(BlockBytes, CountsWeightsOnceOverTheRanksAndTablesOnce) {
  const Workload whole = load_workload("t-nlg"), small = scaled(whole, whole.scale_down);
  const double weights = 4.0 * 12 * static_cast<double>(small.hidden) * small.hidden;
  EXPECT_GT(block_bytes(small, 2), weights);
  EXPECT_LT(block_bytes(small, 4), 2 * block_bytes(small, 2));  // weights are shared, activations are not
  EXPECT_GT(block_bytes(whole, 2), block_bytes(small, 2));

  const Workload dlrm = load_workload("dlrm-v2");
  double tables = 0;
  for (const std::int64_t rows : dlrm.rows) tables += 4.0 * (rows * dlrm.dim);
  EXPECT_GT(block_bytes(dlrm, 2), tables);
  EXPECT_LT(block_bytes(dlrm, 2), 2 * tables);
}

TEST(BlockBytes, RanksThatCannotShareAModelAreRefused) {
  const Workload whole = load_workload("t-nlg");
  EXPECT_THROW(block_bytes(scaled(whole, whole.scale_down), 5), Error);
}

TEST(SampleCheck, RoundingGrowsWithTheRootOfTheTerms) {
  EXPECT_DOUBLE_EQ(rounding_of(400) / rounding_of(100), 2);
  EXPECT_DOUBLE_EQ(rounding_of(1), rounding_of(16));
}

}  // namespace
}  // namespace weft
