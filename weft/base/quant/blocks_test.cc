#include "weft/base/quant/blocks.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"

namespace weft {
namespace {

constexpr Dtype kBlockedDtypes[] = {Dtype::q8_0, Dtype::q4_0, Dtype::q4_k, Dtype::q6_k};

TEST(Blocks, RowsAreCountedInWholeBlocks) {
  EXPECT_EQ(row_bytes(Dtype::q8_0, 64), 68);
  EXPECT_EQ(row_bytes(Dtype::q4_0, 64), 36);
  EXPECT_EQ(row_bytes(Dtype::q4_k, 512), 288);
  EXPECT_EQ(row_bytes(Dtype::q6_k, 512), 420);
  for (const Dtype dtype : kBlockedDtypes) {
    EXPECT_TRUE(is_blocked(dtype));
    EXPECT_NE(refusal([&] { parse_dtype(to_string(dtype)); }), "did not throw") << "no plan has it";
  }
  EXPECT_FALSE(is_blocked(Dtype::int8));
}

std::vector<float> quantised(Dtype dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(num(row_bytes(dtype, std::ssize(values))));
  quantise(dtype, std::ssize(values), values.data(), bytes.data());
  std::vector<float> back(values.size());
  dequantise(dtype, bytes.data(), 0, std::ssize(values), back.data());
  return back;
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) off += std::pow(a[i] - b[i], 2.0), all += std::pow(a[i], 2.0);
  return std::sqrt(off / all);
}

// Normal values: the root of the mean squared error that each format's bits allow.
TEST(Blocks, QuantisedValuesAreNear) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(64 * 256);
  for (float& value : values) value = normal(random);
  EXPECT_LT(relative_error(values, quantised(Dtype::q8_0, values)), 0.006);
  EXPECT_LT(relative_error(values, quantised(Dtype::q6_k, values)), 0.02);
  EXPECT_LT(relative_error(values, quantised(Dtype::q4_k, values)), 0.08);
  EXPECT_LT(relative_error(values, quantised(Dtype::q4_0, values)), 0.11);
}

TEST(Blocks, SmallLargeEqualAndOneSidedValuesComeBack) {
  for (const Dtype dtype : kBlockedDtypes)
    for (const float value : {1.0f, -1.0f, 1e-2f, -3e4f}) {  // of 1e-2 a scale is a half of few bits
      const std::vector<float> same(256, value);
      EXPECT_LE(relative_error(same, quantised(dtype, same)), 0.02) << to_string(dtype) << " " << value;
    }
  for (const Dtype dtype : kBlockedDtypes)
    EXPECT_EQ(quantised(dtype, std::vector<float>(256, 0.0f)), std::vector<float>(256, 0.0f));
  std::vector<float> one(256, 0.0f);
  one[77] = -5;
  for (const Dtype dtype : kBlockedDtypes) EXPECT_LT(relative_error(one, quantised(dtype, one)), 0.01);
  std::vector<float> rising(256);
  for (std::size_t i = 0; i < 256; ++i) rising[i] = 1 + static_cast<float>(i) / 256;
  for (const Dtype dtype : kBlockedDtypes) EXPECT_LT(relative_error(rising, quantised(dtype, rising)), 0.08);
}

TEST(Blocks, WhatCannotBeQuantisedIsRefused) {
  std::vector<float> values(256, 1.0f);
  std::vector<std::byte> out(1024);
  EXPECT_EQ(refusal([&] { quantise(Dtype::q4_k, 128, values.data(), out.data()); }),
            "128 values are no whole number of q4_k blocks of 256; use another format");
  EXPECT_EQ(refusal([&] { quantise(Dtype::f32, 32, values.data(), out.data()); }),
            "f32 is no format of blocks; use q8_0, q4_0, q4_k or q6_k");
  EXPECT_NE(refusal([&] { dequantise(Dtype::bf16, out.data(), 0, 1, values.data()); }), "did not throw");
  values[5] = NAN;
  EXPECT_EQ(refusal([&] { quantise(Dtype::q8_0, 32, values.data(), out.data()); }),
            "value 5 is nan; weights in blocks are finite");
}

}  // namespace
}  // namespace weft
