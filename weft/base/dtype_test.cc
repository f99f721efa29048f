#include "weft/base/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

constexpr Dtype kAllDtypes[] = {Dtype::f32, Dtype::bf16, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::int8, Dtype::f16};

TEST(DtypeNames, AreReadBackAsTheyAreWritten) {
  for (const Dtype dtype : kAllDtypes) EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
  for (const Dtype dtype : {Dtype::f32, Dtype::q8_0, Dtype::q4_0, Dtype::q4_k, Dtype::q6_k})
    EXPECT_EQ(parse_weight_dtype(to_string(dtype)), dtype);
  EXPECT_FALSE(refusal([] { parse_dtype("q8_0"); }).empty()) << "weights alone are in blocks";
  EXPECT_DOUBLE_EQ(bytes_per_value(Dtype::q4_k), 0.5625);
  EXPECT_DOUBLE_EQ(bytes_per_value(Dtype::bf16), 2);
  EXPECT_EQ(refusal([] { parse_dtype("f64"); }),
            "unknown dtype \"f64\"; use one of f32, bf16, i32, i64, u8, int8, f16");
}

TEST(Bf16, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const bf16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(wide)))) << bits;
    } else {
      EXPECT_EQ(to_bf16(wide).bits, value.bits);
    }
  }
}

TEST(F16, EveryValueSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const f16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double fraction = static_cast<double>(bits & 1023) / 1024;
    const double size = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
    if (exponent == 31) {
      EXPECT_EQ(std::isinf(wide), fraction == 0) << bits;
      EXPECT_EQ(std::isnan(wide), fraction != 0) << bits;
    } else {
      EXPECT_EQ(wide, (bits & 0x8000) != 0 ? -size : size);
    }
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(to_float(to_f16(wide)))) << bits;
    else
      EXPECT_EQ(to_f16(wide).bits, value.bits);
  }
}

TEST(F16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const f16 low{static_cast<std::uint16_t>(bits)}, high{static_cast<std::uint16_t>(bits + 1)};
    const float middle = (to_float(low) + to_float(high)) / 2;
    EXPECT_EQ(to_f16(middle).bits, bits % 2 == 0 ? low.bits : high.bits) << bits;
    EXPECT_EQ(to_f16(std::nextafter(middle, 0.0f)).bits, low.bits) << bits;
    EXPECT_EQ(to_f16(std::nextafter(middle, 1e9f)).bits, high.bits) << bits;
  }
  EXPECT_EQ(to_f16(65519).bits, 0x7bff);
  EXPECT_EQ(to_f16(-65520).bits, 0xfc00);
}

// Of the two neighbours the nearer one; the even one where both are as near.
TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // a tie: even below
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // a tie: even above
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f807fffu)).bits, 0x3f80);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80);  // beyond the largest: infinity
  EXPECT_EQ(to_bf16(-0.0f).bits, 0x8000);
  std::mt19937 random(7);
  for (int i = 0; i < 100'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(value) || std::abs(value) > 3e38f) continue;
    const bf16 near = to_bf16(value);
    const float below = to_float(bf16{static_cast<std::uint16_t>(near.bits - 1)});
    const float above = to_float(bf16{static_cast<std::uint16_t>(near.bits + 1)});
    const double error = std::abs(double{to_float(near)} - value);
    EXPECT_LE(error, std::isfinite(below) ? std::abs(double{below} - value) : error);
    EXPECT_LE(error, std::isfinite(above) ? std::abs(double{above} - value) : error);
  }
}

TEST(RowBytes, CountScalesOfInt8PerBlockBegun) {
  EXPECT_EQ(row_bytes(Dtype::f32, 7), 28);
  EXPECT_EQ(row_bytes(Dtype::bf16, 7), 14);
  EXPECT_EQ(row_bytes(Dtype::i64, 0), 0);
  EXPECT_EQ(row_bytes(Dtype::int8, 0), 0);
  EXPECT_EQ(row_bytes(Dtype::int8, 1), 3);
  EXPECT_EQ(row_bytes(Dtype::int8, kInt8Block), kInt8BlockBytes);
  EXPECT_EQ(row_bytes(Dtype::int8, kInt8Block + 1), kInt8BlockBytes + 3);
  for (std::int64_t blocks = 0; blocks < 9; ++blocks)
    EXPECT_EQ(row_bytes(Dtype::int8, blocks * kInt8Block), blocks * kInt8BlockBytes);
}

TEST(Int8Scale, NoByteOverflowsAndTheScaleIsHardlyLarger) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> exponent(-110, 120);
  for (int i = 0; i < 100'000; ++i) {
    const auto most = static_cast<float>(std::exp2(exponent(random)));
    const float scale = to_float(int8_scale(most));
    EXPECT_GE(double{scale} * 127, most);
    EXPECT_LE(double{scale} * 127, double{most} * (1 + 1.0 / 100));
  }
}

TEST(Int8Scale, TinyBlocksAreZeroAndBrokenOnesNaN) {
  EXPECT_EQ(int8_scale(0).bits, 0);
  EXPECT_EQ(int8_scale(1e-38f).bits, 0);
  EXPECT_TRUE(std::isnan(to_float(int8_scale(std::numeric_limits<float>::infinity()))));
  EXPECT_TRUE(std::isnan(to_float(int8_scale(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace weft
