#include "weft/kernel/gemm/matmul.h"

#include <cmath>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/gemm/gemm.h"
#include "weft/kernel/gemm/gemv.h"
#include "weft/kernel/random_test.h"
#include "weft/kernel/reference.h"

namespace weft {
namespace {

struct Case {
  std::int64_t m, n, k;
  Dtype dtype;
  bool bias;
  Dtype activations = Dtype::f32;
  std::int64_t gap = 5;  // from the end of a row of w to the next

  // Whether x is rounded before it is multiplied.
  bool rounds() const {
    return activations == Dtype::bf16 && dtype == Dtype::bf16 && m > most_gemv_rows() && k % 2 == 0 &&
           (k + gap) % 2 == 0 && has_bf16_products();
  }
};

// Rows further apart than they are long, so that a wrong leading dimension shows.
std::vector<float> product(ThreadPool& threads, const Case& c, double* error) {
  const std::int64_t ldw = c.k + c.gap, ldx = c.k + 2, ldy = c.n + 3;
  const std::vector<char> w = random_bytes(c.n * ldw, c.dtype, 1);
  const std::vector<float> x = random_floats(c.m * ldx, 2), bias = random_floats(c.n, 3);
  std::vector<float> y(num(c.m * ldy), 9.0f);
  const Linear linear{.n = c.n,
                      .k = c.k,
                      .w = w.data(),
                      .dtype = c.dtype,
                      .ldw = ldw,
                      .bias = c.bias ? bias.data() : nullptr,
                      .activations = c.activations};
  matmul(threads, c.m, linear, x.data(), ldx, y.data(), ldy);
  *error = 0;
  std::vector<float> taken = x;  // as the product takes it
  if (c.rounds())
    for (float& value : taken) value = to_float(to_bf16(value));
  for (std::int64_t i = 0; i < c.m; ++i) {
    std::vector<double> exact(num(c.n));
    gemv_f64(c.n, c.k, {w.data(), ldw, c.dtype}, taken.data() + i * ldx, exact.data());
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

TEST(Matmul, RoundsActivationsWhereThatIsAskedForAndFaster) {
  ThreadPool one(1), three(3);
  for (const std::int64_t m : {1, 17, 131})
    for (const std::int64_t n : {15, 64, 200})
      for (const std::int64_t k : {2, 30, 31, 258, 2300})
        for (const std::int64_t gap : {5, 6}) {
          const Case c{m, n, k, Dtype::bf16, n % 2 == 0, Dtype::bf16, gap};
          double error = 0, unrounded = 0;
          const std::vector<float> y = product(one, c, &error);
          ASSERT_LT(error, 4e-6 * std::sqrt(static_cast<double>(k) + 1)) << m << " x " << n << " x " << k;
          ASSERT_TRUE(same_bits(y, product(three, c, &error))) << m << " x " << n << " x " << k;
          const std::vector<float> exact =
              product(one, {m, n, k, Dtype::bf16, n % 2 == 0, Dtype::f32, gap}, &unrounded);
          EXPECT_EQ(same_bits(y, exact), !c.rounds()) << m << " x " << n << " x " << k;
        }
}

// Products of the same rows, some of weights in blocks of two kinds, some with bf16 activations: as one by one.
TEST(Matmul, ProductsTogetherHaveTheBitsOfEachAlone) {
  const std::int64_t k = 512, ldx = k + 2;
  const Dtype dtypes[]{Dtype::bf16, Dtype::q4_k, Dtype::f32, Dtype::q4_k, Dtype::q6_k, Dtype::bf16};
  const std::int64_t columns[]{100, 33, 1, 70, 0, 64};
  std::vector<std::vector<char>> weights;
  for (const Dtype dtype : dtypes) {
    weights.push_back(random_bytes(100 * k, is_blocked(dtype) ? Dtype::f32 : dtype, std::ssize(weights)));
    if (!is_blocked(dtype)) continue;
    const std::vector<char> values = weights.back();
    weights.back().resize(num(100 * row_bytes(dtype, k)));
    quantise(dtype, 100 * k, reinterpret_cast<const float*>(values.data()),
             reinterpret_cast<std::byte*>(weights.back().data()));
  }
  const std::vector<float> bias = random_floats(100, 3);
  ThreadPool one(1), three(3);
  for (const std::int64_t m : {1, 3, 12, 40}) {
    const std::vector<float> x = random_floats(m * ldx, 2);
    std::vector<std::vector<float>> apart, together;
    std::vector<LinearOutput> products;
    for (std::size_t p = 0; p < std::size(dtypes); ++p) {
      const std::int64_t n = columns[p];
      const Linear linear{.n = n,
                          .k = k,
                          .w = weights[p].data(),
                          .dtype = dtypes[p],
                          .bias = p % 2 == 0 ? bias.data() : nullptr,
                          .activations = Dtype::bf16};
      matmul(one, m, linear, x.data(), ldx, apart.emplace_back(num(m * (n + 1)), 9.0f).data(), n + 1);
      products.push_back({linear, together.emplace_back(num(m * (n + 1)), 9.0f).data(), n + 1});
    }
    matmul(three, m, products, x.data(), ldx);
    for (std::size_t p = 0; p < std::size(dtypes); ++p) EXPECT_TRUE(same_bits(apart[p], together[p])) << m << " " << p;
  }
}

TEST(Matmul, PairsOfBf16AreRefusedWhereTheyCannotBe) {
  const GemmShape pairs{.tile_rows = 4, .tile_cols = 4, .k = 4, .lda = 4, .ldb = 4, .pairs = true};
  EXPECT_THROW(GemmKernel(pairs, Isa::baseline), Error);
  GemmShape wide = pairs;
  wide.b_dtype = Dtype::bf16;
  EXPECT_THROW(GemmKernel{wide}, Error);
}

TEST(Matmul, RefusesWhatCannotBe) {
  ThreadPool threads(1);
  float data[8] = {};
  EXPECT_THROW(matmul(threads, 1, {.n = 2, .k = 2, .w = data, .dtype = Dtype::i32}, data, 2, data + 4, 2), Error);
  EXPECT_THROW(matmul(threads, 1, {.n = 2, .k = 2, .w = data, .ldw = 1}, data, 2, data + 4, 2), Error);
  EXPECT_THROW(matmul(threads, 1, {.n = 2, .k = 2, .w = data}, data, 1, data + 4, 2), Error);
  const LinearOutput two[]{{{.n = 2, .k = 2, .w = data}, data + 4, 2}, {{.n = 2, .k = 1, .w = data}, data + 6, 2}};
  EXPECT_THROW(matmul(threads, 1, two, data, 2), Error);
  EXPECT_THROW(matmul(threads, -1, {.n = 2, .k = 2, .w = data}, data, 2, data + 4, 2), Error);
}

}  // namespace
}  // namespace weft
