#include "weft/kernel/gemm/matmul.h"

#include <cmath>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/random_test.h"
#include "weft/kernel/reference.h"

namespace weft {
namespace {

struct Case {
  std::int64_t m, n, k;
  Dtype dtype;
  bool bias;
};

// Rows further apart than they are long, so that a wrong leading dimension shows.
std::vector<float> product(ThreadPool& threads, const Case& c, double* error) {
  const std::int64_t ldw = c.k + 5, ldx = c.k + 2, ldy = c.n + 3;
  const std::vector<char> w = random_bytes(c.n * ldw, c.dtype, 1);
  const std::vector<float> x = random_floats(c.m * ldx, 2), bias = random_floats(c.n, 3);
  std::vector<float> y(num(c.m * ldy), 9.0f);
  const Linear linear{
      .n = c.n, .k = c.k, .w = w.data(), .dtype = c.dtype, .ldw = ldw, .bias = c.bias ? bias.data() : nullptr};
  matmul(threads, c.m, linear, x.data(), ldx, y.data(), ldy);
  *error = 0;
  for (std::int64_t i = 0; i < c.m; ++i) {
    std::vector<double> exact(num(c.n));
    gemv_f64(c.n, c.k, {w.data(), ldw, c.dtype}, x.data() + i * ldx, exact.data());
    for (std::int64_t j = 0; j < c.n; ++j) {
      const double want = exact[at(j)] + (c.bias ? bias[at(j)] : 0.0f);
      *error = std::max(*error, std::abs(y[at(i * ldy + j)] - want));
    }
    for (std::int64_t j = c.n; j < ldy; ++j) EXPECT_EQ(y[at(i * ldy + j)], 9.0f) << "between rows";
  }
  return y;
}

TEST(Matmul, AgreesWithTheReferenceWithTheSameBitsOnAnyNumberOfThreads) {
  ThreadPool one(1), two(2), five(5);
  for (const std::int64_t m : {0, 1, 2, 3, 4, 7, 8, 17, 64, 131})
    for (const std::int64_t n : {1, 15, 64, 200})
      for (const std::int64_t k : {1, 31, 257, 1100})
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
          const Case c{m, n, k, dtype, n % 2 == 0};
          double error = 0;
          const std::vector<float> y = product(one, c, &error);
          ASSERT_LT(error, 2e-6 * std::sqrt(static_cast<double>(k) + 1)) << m << " x " << n << " x " << k;
          ASSERT_TRUE(same_bits(y, product(two, c, &error))) << m << " x " << n << " x " << k;
          ASSERT_TRUE(same_bits(y, product(five, c, &error))) << m << " x " << n << " x " << k;
        }
}

TEST(Matmul, RefusesWhatCannotBe) {
  ThreadPool threads(1);
  float data[8] = {};
  EXPECT_THROW(matmul(threads, 1, {.n = 2, .k = 2, .w = data, .dtype = Dtype::i32}, data, 2, data + 4, 2), Error);
  EXPECT_THROW(matmul(threads, 1, {.n = 2, .k = 2, .w = data, .ldw = 1}, data, 2, data + 4, 2), Error);
  EXPECT_THROW(matmul(threads, 1, {.n = 2, .k = 2, .w = data}, data, 1, data + 4, 2), Error);
  EXPECT_THROW(matmul(threads, -1, {.n = 2, .k = 2, .w = data}, data, 2, data + 4, 2), Error);
}

}  // namespace
}  // namespace weft
