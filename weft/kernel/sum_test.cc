#include "weft/kernel/sum.h"

#include <limits>

#include <gtest/gtest.h>

#include "weft/base/error.h"
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
        for (std::size_t i = 0; i < static_cast<std::size_t>(ld) * size; ++i) {
          const std::size_t at = r * static_cast<std::size_t>(ld) * size + i;
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
          std::vector<float> from(static_cast<std::size_t>(begin + rows * (cols + gap) + 32));
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
  const auto cols = static_cast<std::int64_t>(values.size());
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
