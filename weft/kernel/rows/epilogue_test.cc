#include "weft/kernel/rows/epilogue.h"

#include <cmath>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/random_test.h"
#include "weft/kernel/reference.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

constexpr Activation kAll[] = {Activation::none, Activation::relu, Activation::gelu, Activation::silu,
                               Activation::gelu_erf};

TEST(Epilogue, AgreesWithTheReferenceWithTheSameBitsOnEveryVariant) {
  for (Activation activation : kAll)
    for (int with = 0; with < 4; ++with)
      for (std::int64_t cols : {0, 1, 13, 64, 131}) {
        const std::int64_t rows = 5, ld = cols + 2;
        const std::vector<float> before = random_floats(rows * ld, 1, -12, 12);
        const std::vector<float> bias = random_floats(cols, 2), residual = random_floats(rows * (cols + 1), 3);
        const Epilogue epilogue{.bias = with & 1 ? bias.data() : nullptr,
                                .residual = with & 2 ? residual.data() : nullptr,
                                .residual_ld = cols + 1,
                                .activation = activation};
        std::vector<float> best = before;
        apply(rows, cols, epilogue, best.data(), ld);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t j = 0; j < ld; ++j) {
            const auto at = num(r * ld + j);
            double exact = static_cast<double>(before[at]);
            if (j < cols) {
              const float x = with & 1 ? before[at] + bias[static_cast<std::size_t>(j)] : before[at];
              exact = activation_f64(activation, static_cast<double>(x));
              if (with & 2) exact += static_cast<double>(residual[static_cast<std::size_t>(r * (cols + 1) + j)]);
            }
            ASSERT_NEAR(best[at], exact, 4e-7 * std::max(1.0, std::abs(exact))) << to_string(activation);
          }
        for (Isa isa : reachable_isas()) {
          std::vector<float> tile = before;
          variant(isa).apply(rows, cols, epilogue, tile.data(), ld);
          ASSERT_TRUE(same_bits(best, tile)) << to_string(isa) << " " << to_string(activation);
        }
      }
}

TEST(Epilogue, LargeArgumentsSaturateAndNanStays) {
  for (Activation activation : {Activation::relu, Activation::gelu, Activation::silu, Activation::gelu_erf}) {
    float tile[] = {-1e4f, -100.0f, -90.0f, 0.0f, 90.0f, 1e4f, std::numeric_limits<float>::quiet_NaN()};
    apply(1, 7, {.activation = activation}, tile, 7);
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(tile[i], 0.0f, 1e-30f) << to_string(activation);
    EXPECT_EQ(tile[4], 90.0f);
    EXPECT_EQ(tile[5], 1e4f);
    EXPECT_TRUE(std::isnan(tile[6])) << to_string(activation);
  }
}

TEST(Epilogue, ActivationNamesRoundTripAndARefusalListsThem) {
  for (Activation activation : kAll) EXPECT_EQ(parse_activation(to_string(activation)), activation);
  try {
    parse_activation("tanh");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "unknown activation \"tanh\"; use one of none, relu, gelu, silu, gelu_erf");
  }
}

}  // namespace
}  // namespace weft
