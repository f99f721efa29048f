#include "weft/kernel/rows/norm.h"

#include <cmath>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/kernel/random_test.h"
#include "weft/kernel/reference.h"

namespace weft {
namespace {

TEST(RmsNorm, AgreesWithTheReferenceAlsoInPlace) {
  for (std::int64_t cols : {1, 7, 16, 333, 4096}) {
    const std::int64_t rows = 3, ldx = cols + 2;
    std::vector<float> x = random_floats(rows * ldx, 5, -3, 3);
    const std::vector<float> weight = random_floats(cols, 6);
    const RmsNorm norm{.weight = weight.data(), .eps = 1e-6f};
    std::vector<float> y(num(rows * cols));
    rms_norm(rows, cols, norm, x.data(), ldx, y.data(), cols);
    std::vector<double> exact(num(cols));
    for (std::int64_t r = 0; r < rows; ++r) {
      rms_norm_f64(cols, norm, x.data() + r * ldx, exact.data());
      for (std::int64_t j = 0; j < cols; ++j) ASSERT_NEAR(y[at(r * cols + j)], exact[at(j)], 2e-6) << cols;
    }
    rms_norm(rows, cols, norm, x.data(), ldx, x.data(), ldx);
    for (std::int64_t r = 0; r < rows; ++r)
      EXPECT_EQ(std::memcmp(&x[at(r * ldx)], &y[at(r * cols)], num(cols) * sizeof(float)), 0);
  }
}

TEST(LayerNorm, AgreesWithFloat64AlsoFarFromZeroAndInPlace) {
  for (std::int64_t cols : {1, 7, 16, 333, 4096})
    for (const bool biased : {false, true}) {
      const std::int64_t rows = 3, ldx = cols + 2;
      std::vector<float> x = random_floats(rows * ldx, 5, 97, 103);
      const std::vector<float> weight = random_floats(cols, 6), bias = random_floats(cols, 7);
      const LayerNorm norm{.weight = weight.data(), .bias = biased ? bias.data() : nullptr, .eps = 1e-5f};
      std::vector<float> y(num(rows * cols));
      layer_norm(rows, cols, norm, x.data(), ldx, y.data(), cols);
      for (std::int64_t r = 0; r < rows; ++r) {
        double mean = 0, variance = 0;
        for (std::int64_t j = 0; j < cols; ++j) mean += double(x[r * ldx + j]) / double(cols);
        for (std::int64_t j = 0; j < cols; ++j) variance += std::pow(double(x[r * ldx + j]) - mean, 2) / double(cols);
        for (std::int64_t j = 0; j < cols; ++j) {
          const double unit = (double(x[r * ldx + j]) - mean) / std::sqrt(variance + double(norm.eps));
          ASSERT_NEAR(y[r * cols + j], unit * double(weight[j]) + (biased ? double(bias[j]) : 0), 6e-6) << cols;
        }
      }
      layer_norm(rows, cols, norm, x.data(), ldx, x.data(), ldx);
      for (std::int64_t r = 0; r < rows; ++r)
        EXPECT_EQ(std::memcmp(&x[r * ldx], &y[r * cols], num(cols) * sizeof(float)), 0);
    }
}

}  // namespace
}  // namespace weft
