#include "weft/base/quant/compensate.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/refusal_test.h"

namespace weft {
namespace {

constexpr std::int64_t kCols = 256, kRows = 8, kInputs = 600;

// Inputs that go together, as activations do: a few directions and some noise; G is the sum of their products.
std::vector<float> gram_of_inputs() {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 1);
  constexpr std::int64_t kDirections = 24;
  std::vector<float> directions(num(kDirections * kCols)), x(num(kCols)), gram(num(kCols * kCols));
  for (float& value : directions) value = normal(random);
  for (std::int64_t i = 0; i < kInputs; ++i) {
    for (float& value : x) value = 0.3f * normal(random);
    for (std::int64_t d = 0; d < kDirections; ++d) {
      const float by = normal(random);
      for (std::int64_t c = 0; c < kCols; ++c) x[at(c)] += by * directions[at(d * kCols + c)];
    }
    for (std::int64_t a = 0; a < kCols; ++a)
      for (std::int64_t b = 0; b < kCols; ++b) gram[at(a * kCols + b)] += x[at(a)] * x[at(b)];
  }
  return gram;
}

std::vector<float> normal_rows() {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(num(kRows * kCols));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> read_back(Dtype dtype, const std::vector<std::byte>& bytes) {
  std::vector<float> out(num(kRows * kCols));
  dequantise(dtype, bytes.data(), 0, kRows * kCols, out.data());
  return out;
}

TEST(Compensation, LosesFarLessOnTheInputsItWasMadeFor) {
  const Compensation compensation(kCols, gram_of_inputs());
  const std::vector<float> values = normal_rows();
  for (const Dtype dtype : {Dtype::q4_k, Dtype::q6_k, Dtype::q4_0, Dtype::q8_0}) {
    std::vector<std::byte> plain(num(kRows * row_bytes(dtype, kCols))), compensated(plain.size());
    quantise(dtype, kRows * kCols, values.data(), plain.data());
    compensation.quantise(dtype, kRows, values.data(), compensated.data());
    const double before = compensation.loss(kRows, values.data(), read_back(dtype, plain).data());
    const double after = compensation.loss(kRows, values.data(), read_back(dtype, compensated).data());
    EXPECT_LT(after, 0.4 * before) << to_string(dtype);
    EXPECT_GT(after, 0);
  }
}

// Inputs that know nothing of each other: no column can make up for another.
TEST(Compensation, IsPlainRoundingWhereInputsAreUnrelated) {
  std::vector<float> gram(num(kCols * kCols));
  for (std::int64_t j = 0; j < kCols; ++j) gram[at(j * kCols + j)] = 3;
  const std::vector<float> values = normal_rows();
  for (const Dtype dtype : {Dtype::q4_k, Dtype::q6_k}) {
    std::vector<std::byte> plain(num(kRows * row_bytes(dtype, kCols))), compensated(plain.size());
    quantise(dtype, kRows * kCols, values.data(), plain.data());
    Compensation(kCols, gram).quantise(dtype, kRows, values.data(), compensated.data());
    const std::vector<float> a = read_back(dtype, plain), b = read_back(dtype, compensated);
    double off = 0, all = 0;
    for (std::size_t i = 0; i < a.size(); ++i) off += std::pow(a[i] - b[i], 2.0), all += std::pow(a[i], 2.0);
    EXPECT_LT(off / all, 1e-4) << to_string(dtype);  // a tie may fall the other way
  }
}

TEST(Compensation, InputsThatWereNeverSeenAreNoTrouble) {
  std::vector<float> gram(num(kCols * kCols));
  const std::vector<float> values = normal_rows();
  std::vector<std::byte> bytes(num(kRows * row_bytes(Dtype::q4_k, kCols)));
  for (const float seen : {0.0f, 1e-20f, 1e20f}) {
    gram[0] = seen;
    Compensation(kCols, gram).quantise(Dtype::q4_k, kRows, values.data(), bytes.data());
    const std::vector<float> back = read_back(Dtype::q4_k, bytes);
    for (std::size_t i = 0; i < back.size(); ++i) ASSERT_NEAR(back[i], values[i], 0.02) << seen << " " << i;
  }
}

TEST(Compensation, WhatCannotBeIsRefused) {
  std::vector<float> gram(num(kCols * kCols), 1.0f), values = normal_rows();
  std::vector<std::byte> bytes(1 << 16);
  EXPECT_EQ(refusal([&] { Compensation(255, gram); }), "65536 values for a matrix of 255 x 255");
  const Compensation of_96(96, std::vector<float>(96 * 96, 0.0f));
  EXPECT_EQ(refusal([&] { of_96.quantise(Dtype::q4_k, 1, values.data(), bytes.data()); }),
            "96 values are no whole number of q4_k blocks of 256; use another format");
  values[3] = INFINITY;
  EXPECT_EQ(refusal([&] { of_96.quantise(Dtype::q4_0, 1, values.data(), bytes.data()); }),
            "value 3 is inf; weights in blocks are finite");
  gram[7] = NAN;
  EXPECT_NE(refusal([&] { Compensation(kCols, gram); }).find("is nan"), std::string::npos);
}

}  // namespace
}  // namespace weft
