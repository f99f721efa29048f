#include "weft/kernel/gemm/gemv.h"

#include <cmath>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/random_test.h"
#include "weft/kernel/reference.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

TEST(Gemv, AgreesWithTheReferenceWithTheSameBitsOnEveryVariant) {
  for (std::int64_t rows : {0, 1, 3, 4, 7, 64})
    for (std::int64_t k : {0, 1, 15, 16, 17, 31, 509, 1024})
      for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        const std::int64_t ldw = k + 3;
        const std::vector<char> w = random_bytes(rows * ldw, dtype, 1);
        const std::vector<float> x = random_floats(k, 2);
        std::vector<double> exact(num(rows));
        gemv_f64(rows, k, {w.data(), ldw, dtype}, x.data(), exact.data());
        std::vector<float> best(num(rows));
        gemv(rows, k, w.data(), dtype, ldw, x.data(), best.data());
        for (std::size_t r = 0; r < exact.size(); ++r)
          ASSERT_NEAR(best[r], exact[r], 1e-6 * std::sqrt(static_cast<double>(k) + 1)) << rows << " x " << k;
        for (Isa isa : reachable_isas()) {
          std::vector<float> y(num(rows));
          variant(isa).gemv({w.data(), dtype, rows, k, ldw, 0}, {1, x.data(), k, y.data(), rows});
          ASSERT_TRUE(same_bits(best, y)) << to_string(isa) << " " << rows << " x " << k;
        }
      }
}

TEST(Gemv, BitsDoNotDependOnTheSplitOfRowsNorOnTheBatch) {
  for (const Isa isa : reachable_isas())
    for (std::int64_t m = 1; m <= 9; ++m)
      for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        const std::int64_t rows = m % 2 == 0 ? 23 : 403, k = 333, ldx = k + 1, ldw = k + 2;  // near rows, and far ones
        const auto size = static_cast<std::int64_t>(size_of(dtype));
        const std::vector<char> w = random_bytes(rows * ldw, dtype, 3);
        const std::vector<float> x = random_floats(m * ldx, 4);
        std::vector<float> whole(m * rows), split(m * rows), batched(m * rows), at_best(m * rows);
        for (std::int64_t i = 0; i < m; ++i) {
          variant(isa).gemv({w.data(), dtype, rows, k, ldw, 0},
                            {1, x.data() + i * ldx, k, whole.data() + i * rows, rows});
          for (std::int64_t r = 0; r < rows; r += 3)
            variant(isa).gemv({w.data() + r * ldw * size, dtype, std::min<std::int64_t>(3, rows - r), k, ldw, 0},
                              {1, x.data() + i * ldx, k, split.data() + i * rows + r, rows});
        }
        variant(isa).gemv({w.data(), dtype, rows, k, ldw, 0}, {m, x.data(), ldx, batched.data(), rows});
        gemv(rows, k, w.data(), dtype, ldw, {.m = m, .x = x.data(), .ldx = ldx, .y = at_best.data(), .ldy = rows});
        EXPECT_TRUE(same_bits(whole, split)) << to_string(isa);
        EXPECT_TRUE(same_bits(whole, batched)) << to_string(isa) << " " << m;
        EXPECT_TRUE(same_bits(whole, at_best)) << m;
      }
}

TEST(Gemv, AddsAndStoresTwiceWithTheBitsOfDoingSoAfterwards) {
  for (std::int64_t rows : {1, 63, 64, 150})
    for (std::int64_t m : {1, 3}) {
      const std::int64_t k = 40, ld = rows + 5;
      const std::vector<char> w = random_bytes(rows * k, Dtype::f32, 5);
      const std::vector<float> x = random_floats(m * k, 6), addend = random_floats(m * ld, 7);
      std::vector<float> plain(m * rows), y(m * ld, -1.0f), twin(m * ld, -1.0f);
      gemv(rows, k, w.data(), Dtype::f32, k, {.m = m, .x = x.data(), .ldx = k, .y = plain.data(), .ldy = rows});
      gemv(rows, k, w.data(), Dtype::f32, k,
           {.m = m,
            .x = x.data(),
            .ldx = k,
            .y = y.data(),
            .ldy = ld,
            .addend = addend.data(),
            .addend_ld = ld,
            .twin = twin.data(),
            .twin_ld = ld});
      EXPECT_TRUE(same_bits(y, twin));
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t r = 0; r < rows; ++r) EXPECT_EQ(y[i * ld + r], addend[i * ld + r] + plain[i * rows + r]);
        for (std::int64_t r = rows; r < ld; ++r) EXPECT_EQ(twin[i * ld + r], -1.0f) << "beyond the row";
      }
    }
}

TEST(Gemv, RefusesIntegers) {
  float y = 0;
  EXPECT_THROW(gemv(1, 1, &y, Dtype::i32, 1, &y, &y), Error);
}

}  // namespace
}  // namespace weft
