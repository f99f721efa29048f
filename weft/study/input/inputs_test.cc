// Inputs by position: fresh every round, the same for whoever asks, and spread as they should be.
#include "weft/study/input/inputs.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "weft/base/dtype.h"
#include "weft/base/index.h"
#include "weft/study/input/values.h"

namespace weft {
namespace {

OpSpec product(Dtype weight, bool addend = false) {
  const Mesh mesh({{"tp", 2}});
  return {.name = "gemm-rs",
          .producer = validated(gemm({.m = 6, .n = 10, .k = 4, .weight = weight, .addend = addend}), 2),
          .space = reduce_scatter(mesh, "tp"),
          .ranks = 2};
}

OpSpec bags() {
  const Mesh mesh({{"tp", 2}});
  return {.name = "embedding-a2a",
          .producer = validated(embedding_bag({.tables = 2, .rows = 50, .dim = 3, .batch = 8}), 2),
          .space = all_to_all(mesh, "tp"),
          .bags = {{{50, 3}, {7, 1}}, {{50, 2}, {50, 2}}},
          .zipf = 1.2,
          .ranks = 2};
}

TEST(Values, AreSpreadOverTheWholeRangeAndBelongToTheirStream) {
  double sum = 0, squares = 0;
  constexpr int kCount = 20'000;
  int same = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = value_at(stream_of(Input::x, 0, 3), i);
    ASSERT_GE(value, -1);
    ASSERT_LT(value, 1);
    sum += value, squares += value * value;
    same += value == value_at(stream_of(Input::x, 1, 3), i);
  }
  EXPECT_NEAR(sum / kCount, 0, 0.02);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.01);
  EXPECT_LT(same, 5);
  std::set<std::uint64_t> streams;
  for (const Input input : {Input::x, Input::w, Input::table, Input::index, Input::addend})
    for (int rank = 0; rank < 4; ++rank)
      for (std::uint64_t round = 0; round < 4; ++round)
        for (std::uint64_t part = 0; part < 4; ++part) streams.insert(stream_of(input, rank, round, part));
  EXPECT_EQ(streams.size(), 5u * 4 * 4 * 4);
}

// Popularity falls as 1 / i^s: the first row is read 2^s times as often as the second.
TEST(Values, ZipfReadsPopularRowsAsOftenAsTheirRankSays) {
  constexpr int kCount = 200'000, kRows = 1000;
  for (const double exponent : {0.8, 1.0, 1.3}) {
    std::vector<int> read(kRows);
    for (int i = 0; i < kCount; ++i) ++read[at(zipf_rank_at(11, i, kRows, exponent))];
    const auto share = [&](double i) {  // of [i, i + 1) under x^-s on [1, rows + 1)
      const auto area = [&](double x) {
        return exponent == 1 ? std::log(x) : std::pow(x, 1 - exponent) / (1 - exponent);
      };
      return (area(i + 2) - area(i + 1)) / (area(kRows + 1) - area(1));
    };
    for (const int i : {0, 1, 5, 50})
      EXPECT_NEAR(read[at(i)], kCount * share(i), 5 * std::sqrt(kCount * share(i))) << exponent << " row " << i;
  }
  std::set<std::int64_t> seen;
  for (int i = 0; i < 5000; ++i) {
    const std::int64_t index = zipf_index_at(3, i, 40, 0);
    ASSERT_TRUE(index >= 0 && index < 40);
    seen.insert(index);
  }
  EXPECT_EQ(seen.size(), 40u) << "without an exponent all rows are alike";
}

TEST(RankInputs, AreFreshEveryRoundAndTheSameForWhoeverAsks) {
  const OpSpec spec = product(Dtype::f32, true);
  RankInputs one(spec, 1), twin(spec, 1);
  for (const std::uint64_t round : {0u, 1u, 7u}) {
    one.refresh(round), twin.refresh(round);
    const Inputs in = one.next(), other = twin.next();
    for (std::int64_t i = 0; i < 6 * 4; ++i) {
      ASSERT_EQ(in.x[i], value_at(stream_of(Input::x, 1, round), i));
      ASSERT_EQ(in.x[i], other.x[i]);
    }
    for (std::int64_t i = 0; i < 6 * 10; ++i) ASSERT_EQ(in.addend[i], value_at(stream_of(Input::addend, 1, round), i));
  }
}

// The next run finds its weights at another place, with the same values.
TEST(RankInputs, WeightsLieInCopiesThatRunsTakeInTurn) {
  for (const Dtype weight : {Dtype::f32, Dtype::bf16}) {
    const OpSpec spec = product(weight);
    RankInputs inputs(spec, 0);
    inputs.refresh(0);
    ASSERT_TRUE(inputs.rotates()) << "so few weights would all stay in the cache";
    std::set<const void*> places;
    const void* first = inputs.next().w;
    places.insert(first);
    for (const void* w = inputs.next().w; w != first; w = inputs.next().w) {
      ASSERT_TRUE(places.insert(w).second) << "a copy has two turns";
      for (std::int64_t i = 0; i < 4 * 10; ++i) {
        const float want = value_at(stream_of(Input::w, 0, 0), i);
        if (weight == Dtype::f32) {
          ASSERT_EQ(static_cast<const float*>(w)[i], want);
        } else {
          ASSERT_EQ(static_cast<const std::uint16_t*>(w)[i], to_bf16(want).bits);
        }
      }
    }
    EXPECT_EQ(inputs.weight_copies().size(), weight == Dtype::f32 ? places.size() : 0u);
    const double each = 4 * 10 * (weight == Dtype::f32 ? 4 : 2), copies = std::ssize(places);
    EXPECT_DOUBLE_EQ(RankInputs::bytes(spec), 6 * 4 * 4 + each * copies) << "what is asked for is what is taken";
    EXPECT_DOUBLE_EQ(bench_hint(spec).weights_in_turn, each * copies);
  }
}

TEST(RankInputs, BagsReadRowsOfTheirOwnTables) {
  const OpSpec spec = bags();
  for (int rank = 0; rank < 2; ++rank) {
    RankInputs inputs(spec, rank);
    inputs.refresh(2);
    const Inputs in = inputs.next();
    ASSERT_EQ(in.tables.size(), 2u);
    for (std::size_t t = 0; t < 2; ++t) {
      const BagTable bag = spec.bags[at(rank)][t];
      for (std::int64_t b = 0; b <= 8; ++b) EXPECT_EQ(in.offsets[t][b], b * bag.pooling);
      for (std::int64_t i = 0; i < 8 * bag.pooling; ++i) {
        EXPECT_EQ(in.indices[t][i], zipf_index_at(stream_of(Input::index, rank, 2, t), i, bag.rows, 1.2));
        EXPECT_TRUE(in.indices[t][i] >= 0 && in.indices[t][i] < bag.rows);
      }
      EXPECT_EQ(in.tables[t][0], value_at(stream_of(Input::table, rank, 0, t), 0));
    }
  }
  EXPECT_DOUBLE_EQ(RankInputs::bytes(spec), 2 * (50 * 3 * 4 + 8 * 3 * 8 * 2)) << "the rank with the most";
}

}  // namespace
}  // namespace weft
