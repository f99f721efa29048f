#include "weft/kernel/attention/rope.h"

#include <cmath>
#include <complex>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/random_test.h"

namespace weft {
namespace {

std::vector<double> frequencies(std::int64_t half) {
  std::vector<double> out;
  for (std::int64_t j = 0; j < half; ++j)
    out.push_back(std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(half)));
  return out;
}

// A pair is a complex number, and a position turns it by an angle.
TEST(Rope, TurnsPairsOfTheHalves) {
  for (const std::int64_t half : {1, 3, 8, 32}) {
    const std::int64_t heads = 3, rows = 5, position = 900, ldx = heads * 2 * half + 1;
    const RopeTable table(position + rows, frequencies(half), 1.5);
    const std::vector<float> before = random_floats(rows * ldx, 1);
    std::vector<float> x = before;
    table.apply(position, rows, heads, x.data(), ldx);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t j = 0; j < half; ++j) {
          const std::int64_t at = i * ldx + h * 2 * half + j;
          const auto part = [&](std::int64_t index) {
            return static_cast<double>(before[static_cast<std::size_t>(index)]);
          };
          const double angle = static_cast<double>(position + i) * frequencies(half)[static_cast<std::size_t>(j)];
          const std::complex<double> turned = std::complex<double>(part(at), part(at + half)) * std::polar(1.5, angle);
          ASSERT_NEAR(x[static_cast<std::size_t>(at)], turned.real(), 1e-6);
          ASSERT_NEAR(x[static_cast<std::size_t>(at + half)], turned.imag(), 1e-6);
        }
      EXPECT_EQ(x[static_cast<std::size_t>(i * ldx + ldx - 1)], before[static_cast<std::size_t>(i * ldx + ldx - 1)]);
    }
  }
}

TEST(Rope, TurnsTheFirstColumnsOfAHeadAlone) {
  const std::int64_t half = 3, head = 10, heads = 2;
  const RopeTable whole(9, frequencies(half)), part(9, frequencies(half), 1, head);
  EXPECT_EQ(part.head_dim(), head);
  std::vector<float> x = random_floats(heads * head, 1);
  const std::vector<float> before = x;
  part.apply(8, 1, heads, x.data(), heads * head);
  for (std::int64_t h = 0; h < heads; ++h) {
    std::vector<float> turned(before.begin() + h * head, before.begin() + h * head + 2 * half);
    whole.apply(8, 1, 1, turned.data(), 2 * half);
    for (std::int64_t j = 0; j < head; ++j)
      EXPECT_EQ(x[num(h * head + j)], j < 2 * half ? turned[num(j)] : before[num(h * head + j)]) << h << ' ' << j;
  }
  EXPECT_THROW(RopeTable(9, frequencies(3), 1, 4), Error);
}

TEST(Rope, RefusesPositionsBeyondTheTable) {
  const RopeTable table(4, frequencies(2));
  float x[8] = {};
  EXPECT_NO_THROW(table.apply(2, 2, 1, x, 4));
  EXPECT_THROW(table.apply(3, 2, 1, x, 4), Error);
  EXPECT_THROW(RopeTable(0, frequencies(2)), Error);
  EXPECT_THROW(RopeTable(4, {}), Error);
}

}  // namespace
}  // namespace weft
