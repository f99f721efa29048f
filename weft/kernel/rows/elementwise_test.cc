#include "weft/kernel/rows/elementwise.h"

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/kernel/random_test.h"
#include "weft/kernel/reference.h"

namespace weft {
namespace {

TEST(Elementwise, GateMultipliesTheActivatedHalfByTheOther) {
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_erf})
    for (const std::int64_t cols : {1, 16, 37}) {
      const std::int64_t rows = 3, ldx = 2 * cols + 1, ldy = cols + 2;
      const auto x = random_floats(rows * ldx, 1, -3, 3);
      std::vector<float> y(num(rows * ldy), 5.0f);
      gate(rows, cols, activation, x.data(), ldx, y.data(), ldy);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t j = 0; j < ldy; ++j) {
          const double made = y[static_cast<std::size_t>(r * ldy + j)];
          const auto at = num(r * ldx + j);
          const double other = j < cols ? x[at + num(cols)] : 0;
          if (j < cols) {
            ASSERT_NEAR(made, activation_f64(activation, x[at]) * other, 4e-6) << to_string(activation);
          } else {
            ASSERT_EQ(made, 5.0);
          }
        }
    }
}

TEST(Elementwise, SumsOfProducts) {
  const auto a = random_floats(101, 1), b = random_floats(101, 2), c = random_floats(101, 3);
  std::vector<float> y(101), z = c;
  multiply_add(101, a.data(), b.data(), c.data(), y.data());
  add_scaled(101, 0.5f, a.data(), z.data());
  for (std::size_t i = 0; i < 101; ++i) {
    EXPECT_NEAR(y[i], static_cast<double>(a[i]) * b[i] + c[i], 2e-7);
    EXPECT_NEAR(z[i], static_cast<double>(c[i]) + 0.5 * a[i], 2e-7);
  }
}

}  // namespace
}  // namespace weft
