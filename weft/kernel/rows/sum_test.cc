#include "weft/kernel/rows/sum.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/random_test.h"
#include "weft/kernel/reference.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

constexpr std::int64_t kGap = 3;  // elements between rows that no one may touch

TEST(Sum, HasTheBitsOfTheNaiveFoldOnEveryVariant) {
  for (std::int64_t rows : {0, 1, 3})
    for (std::int64_t cols : {0, 1, 15, 64, 67, 513, 1100})
      for (std::size_t count : {1u, 2u, 5u, 9u})
        for (unsigned mask : {0u, 1u, 0x155u, 0x1ffu})  // which sources are bf16
          for (Dtype to : {Dtype::f32, Dtype::bf16}) {
            std::vector<std::vector<char>> data;
            std::vector<ConstStrip> sources;
            for (std::size_t s = 0; s < count; ++s) {
              const Dtype dtype = (mask >> s) & 1 ? Dtype::bf16 : Dtype::f32;
              const std::int64_t ld = cols + static_cast<std::int64_t>(s);
              data.push_back(random_bytes(rows * ld, dtype, static_cast<unsigned>(s)));
              sources.push_back({data.back().data(), ld, dtype});
            }
            const std::vector<char> blank = random_bytes(rows * (cols + kGap), to, 77);
            std::vector<char> expected = blank;
            sum_naive(rows, cols, sources, {expected.data(), cols + kGap, to});
            std::vector<char> best = blank;
            sum(rows, cols, sources, {best.data(), cols + kGap, to});
            ASSERT_EQ(best, expected);
            for (Isa isa : reachable_isas()) {
              std::vector<char> got = blank;
              variant(isa).sum(rows, cols, {sources.data(), count}, {got.data(), cols + kGap, to});
              ASSERT_EQ(got, expected) << to_string(isa) << " " << rows << " x " << cols << ", " << count;
            }
          }
}

// Rows whose length is no multiple of a block leave a short one; the sources of a mixed sum have any of the formats.
TEST(Sum, Int8BlocksHaveTheBitsOfTheNaiveOnesOnEveryVariant) {
  for (std::int64_t rows : {1, 3})
    for (std::int64_t cols : {1, 31, 32, 33, 64, 100, 513, 1100})
      for (std::size_t count : {1u, 2u, 5u})
        for (Dtype to : {Dtype::f32, Dtype::bf16, Dtype::int8}) {
          const std::int64_t ld = (cols + 31) / 32 * 32;
          constexpr Dtype kFormats[] = {Dtype::int8, Dtype::f32, Dtype::int8, Dtype::bf16, Dtype::int8};
          std::vector<std::vector<char>> data;
          std::vector<ConstStrip> sources;
          for (std::size_t s = 0; s < count; ++s) {
            const Dtype dtype = kFormats[(s + num(rows)) % 5];
            data.push_back(random_bytes(rows * ld, dtype, static_cast<unsigned>(s)));
            sources.push_back({data.back().data(), ld, dtype});
          }
          const std::vector<char> blank = random_bytes(rows * ld, to, 77);
          std::vector<char> expected = blank;
          sum_naive(rows, cols, sources, {expected.data(), ld, to});
          for (Isa isa : reachable_isas()) {
            std::vector<char> got = blank;
            variant(isa).sum(rows, cols, {sources.data(), count}, {got.data(), ld, to});
            ASSERT_EQ(got, expected) << to_string(isa) << " " << rows << " x " << cols << ", " << count;
          }
        }
}

TEST(Copy, Int8IsWithinHalfAStepOfItsBlock) {
  constexpr std::int64_t kCols = 3200;
  std::vector<float> values = random_floats(kCols, 5);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= std::ldexp(1.0f, static_cast<int>(i / 32 % 200) - 100);
  std::vector<char> blocks(num(row_bytes(Dtype::int8, kCols)));
  std::vector<float> back(values.size());
  copy(1, kCols, {values.data(), kCols, Dtype::f32}, {blocks.data(), kCols, Dtype::int8});
  copy(1, kCols, {blocks.data(), kCols, Dtype::int8}, {back.data(), kCols, Dtype::f32});
  for (std::size_t first = 0; first < values.size(); first += 32) {
    float most = 0;
    for (std::size_t i = first; i < first + 32; ++i) most = std::max(most, std::abs(values[i]));
    for (std::size_t i = first; i < first + 32; ++i)
      ASSERT_LE(std::abs(back[i] - values[i]), most / 254 * (1 + 1.0f / 127) + 0x1p-119f) << i;
  }
}

TEST(Copy, Int8KeepsZerosAndTellsOfWhatIsNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const float odd : {infinity, -infinity, nan, -nan}) {
    std::vector<float> values(96, 0.0f), back(96, 5.0f);
    values[40] = odd, values[41] = 1, values[64] = 3e38f, values[65] = -3e38f;
    for (Isa isa : reachable_isas()) {
      std::vector<char> blocks(num(row_bytes(Dtype::int8, 96)));
      const ConstStrip source{values.data(), 96, Dtype::f32}, narrow{blocks.data(), 96, Dtype::int8};
      variant(isa).sum(1, 96, {&source, 1}, {blocks.data(), 96, Dtype::int8});
      variant(isa).sum(1, 96, {&narrow, 1}, {back.data(), 96, Dtype::f32});
      for (std::size_t i = 0; i < 32; ++i) ASSERT_EQ(back[i], 0) << to_string(isa);
      for (std::size_t i = 32; i < 64; ++i) ASSERT_TRUE(std::isnan(back[i])) << to_string(isa);
      EXPECT_NEAR(back[64] / 3e38f, 1, 1.0 / 250);
      EXPECT_NEAR(back[65] / -3e38f, 1, 1.0 / 250);
    }
  }
}

TEST(Sum, TargetMayBeASource) {
  std::vector<float> a = random_floats(1000, 1);
  const std::vector<float> b = random_floats(1000, 2);
  const std::vector<float> before = a;
  const ConstStrip sources[] = {{b.data(), 100, Dtype::f32}, {a.data(), 100, Dtype::f32}};
  sum(10, 100, sources, {a.data(), 100, Dtype::f32});
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i] + before[i]);
}

TEST(Sum, NoSourcesGiveZeros) {
  std::vector<float> target(12, 5.0f);
  sum(3, 2, {}, {target.data(), 4, Dtype::f32});
  EXPECT_EQ(target, (std::vector<float>{0, 0, 5, 5, 0, 0, 5, 5, 0, 0, 5, 5}));
}

TEST(Sum, RefusesIntegers) {
  const std::int32_t value = 1;
  float target = 0;
  const ConstStrip source{&value, 1, Dtype::i32};
  EXPECT_THROW(sum(1, 1, {&source, 1}, {&target, 1, Dtype::f32}), Error);
  EXPECT_THROW(copy(1, 1, source, {&target, 1, Dtype::f32}), Error);
}

TEST(Copy, MovesEveryDtypeByRows) {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::i32, Dtype::i64, Dtype::u8})
    for (std::int64_t ld : {7, 9}) {
      const std::size_t size = size_of(dtype);
      std::vector<char> from(5 * 9 * size), to(5 * 9 * size, 'x');
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i);
      copy(5, 7, {from.data(), ld, dtype}, {to.data(), ld, dtype});
      for (std::size_t r = 0; r < 5; ++r)
        for (std::size_t i = 0; i < num(ld) * size; ++i) {
          const std::size_t at = r * num(ld) * size + i;
          ASSERT_EQ(to[at], i < 7 * size ? from[at] : 'x') << to_string(dtype);
        }
    }
}

// Ties to even, infinities, NaN with its payload in the low half only, the largest float.
TEST(Copy, PastTheCachesMovesTheSameBytesWhereverTheyBegin) {
  for (const std::int64_t rows : {0, 1, 3})
    for (const std::int64_t cols : {1, 15, 16, 33, 515})
      for (const std::int64_t begin : {0, 1, 15, 16})
        for (const std::int64_t gap : {0, 1}) {
          std::vector<float> from(num(begin + rows * (cols + gap) + 32));
          for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i + 1);
          std::vector<float> to(from.size(), -1.0f), expected = to;
          const ConstStrip source{from.data() + 1, cols + gap, Dtype::f32};
          copy(rows, cols, source, {expected.data() + begin, cols + gap, Dtype::f32});
          copy_past_caches(rows, cols, source, {to.data() + begin, cols + gap, Dtype::f32});
          EXPECT_EQ(to, expected) << rows << " x " << cols << " from " << begin;
        }
}

TEST(Copy, RoundsToNearestEvenOnEveryVariant) {
  std::vector<float> values = {1.0f,
                               1.00390625f,
                               1.01171875f,
                               -0.0f,
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::max(),
                               std::bit_cast<float>(0x7f800001u),
                               1e-40f};
  const std::vector<float> more = random_floats(1000, 3, -1e6f, 1e6f);
  values.insert(values.end(), more.begin(), more.end());
  const auto cols = std::ssize(values);
  const ConstStrip source{values.data(), cols, Dtype::f32};
  for (Isa isa : reachable_isas()) {
    std::vector<bf16> got(values.size());
    variant(isa).sum(1, cols, {&source, 1}, {got.data(), cols, Dtype::bf16});
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i].bits, to_bf16(values[i]).bits) << to_string(isa) << " " << values[i];
  }
}

}  // namespace
}  // namespace weft
