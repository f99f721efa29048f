#include "weft/kernel/quant/quant_rows.h"

#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/refusal_test.h"
#include "weft/base/thread_pool.h"
#include "weft/kernel/quant/variant.h"
#include "weft/kernel/random_test.h"

namespace weft {
namespace {

constexpr Dtype kFormats[] = {Dtype::q8_0, Dtype::q4_0, Dtype::q4_k, Dtype::q6_k};

// Weights of a size that real ones have, in a buffer that ends with them: an overrun shows under ASan.
std::vector<std::byte> random_blocks(Dtype dtype, std::int64_t rows, std::int64_t cols, unsigned seed) {
  const std::vector<float> values = random_floats(rows * cols, seed, -0.1f, 0.15f);
  std::vector<std::byte> bytes(num(row_bytes(dtype, rows * cols)));
  quantise(dtype, rows * cols, values.data(), bytes.data());
  return bytes;
}

std::vector<const QuantVariant*> all_variants() {
  std::vector<const QuantVariant*> all;
  for (const Isa isa : reachable_isas())
    for (const QuantVariant* one : quant_variants(isa)) all.push_back(one);
  return all;
}

// y by one variant, rows and vectors as given, row by row of w or in panels.
enum class Way { rows, panels };
std::vector<float> by_variant(const QuantVariant& variant, std::int64_t m, const QuantWeight& w, const float* x,
                              std::int64_t ldx, Way way = Way::rows) {
  const std::int64_t used = (w.first + w.cols + 31) / 32, parts = (used + 7) / 8 * 8;
  std::vector<std::int8_t> bytes(num(m * parts * 32));
  std::vector<std::int32_t> offsets(num(m * parts));
  std::vector<std::int16_t> sums(num(m * parts * 2)), factors(num(m * parts));
  std::vector<float> scales(num(m * parts)), y(num(m * w.rows));
  const RoundedRows rounded{parts, bytes.data(), scales.data(), offsets.data(), sums.data(), factors.data()};
  for (std::int64_t i = 0; i < m; ++i) variant.round({x + i * ldx, w.cols, w.first, w.dtype}, rounded.from(i * parts));
  const std::int64_t row = row_bytes(w.dtype, w.ld);
  if (way == Way::rows) {
    variant.dot({w.data, w.dtype, w.rows, row, w.first / 32, used}, {m, rounded, y.data(), w.rows});
    return y;
  }
  std::vector<std::byte> memory(variant.panels.bytes(parts / 8));
  for (std::int64_t r = 0; r < w.rows; r += variant.panels.rows)
    variant.panels.dot({w.data + r * row, w.dtype, std::min(variant.panels.rows, w.rows - r), row, w.first / 32, used},
                       {m, rounded, y.data() + r, w.rows}, memory.data());
  return y;
}

void expect_near(const std::vector<float>& y, const std::vector<double>& exact, const std::string& what) {
  double largest = 0;
  for (const double value : exact) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], exact[i], 1e-5 * largest + 1e-9) << what << " " << i;
}

TEST(QuantRows, AgreeWithTheReferenceWithTheSameBitsOnEveryVariant) {
  for (const Dtype dtype : kFormats)
    for (const std::int64_t rows : {1, 3, 9})
      for (const std::int64_t cols : {32, 64, 96, 256, 288, 768, 1408}) {
        if (cols % block_shape(dtype).values != 0 && cols != 1408) continue;
        const std::int64_t ld = (cols + 255) / 256 * 256;
        const std::vector<std::byte> w = random_blocks(dtype, rows, ld, 1);
        const QuantWeight weight{w.data(), dtype, rows, cols, 0, ld};
        for (const std::int64_t m : {1, 2, 3, 5}) {
          const std::vector<float> x = random_floats(m * (cols + 3), 2);
          std::vector<double> exact(num(m * rows));
          quant_matmul_naive(m, weight, x.data(), cols + 3, exact.data(), rows);
          const std::vector<float> best = by_variant(quant_variant(), m, weight, x.data(), cols + 3);
          expect_near(best, exact, std::string(to_string(dtype)) + " " + std::to_string(cols));
          for (const QuantVariant* variant : all_variants())
            ASSERT_TRUE(same_bits(best, by_variant(*variant, m, weight, x.data(), cols + 3)))
                << variant->name << " " << to_string(dtype) << " " << cols << " " << m;
        }
      }
}

// A row cut anywhere: the sum over the cuts is the whole, and each cut reads nothing that is not its own block's.
TEST(QuantRows, TakeAnyPartOfARow) {
  const std::int64_t rows = 5, whole = 1024;
  for (const Dtype dtype : kFormats) {
    const std::vector<std::byte> w = random_blocks(dtype, rows, whole, 3);
    const DtypeBlock block = block_shape(dtype);
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 128},
                                     {128, 256},
                                     {352, 704},
                                     {32, 64},
                                     {224, 288},
                                     {96, 1024},
                                     {80, 160},
                                     {17, 18},
                                     {1000, 1024}}) {
      const std::int64_t first_block = begin / block.values, last_block = (end + block.values - 1) / block.values;
      const std::int64_t blocks = last_block - first_block;
      std::vector<std::byte> part(num(rows * blocks * block.bytes));  // no more than the cut's blocks
      for (std::int64_t r = 0; r < rows; ++r)
        std::memcpy(part.data() + r * blocks * block.bytes,
                    w.data() + r * row_bytes(dtype, whole) + first_block * block.bytes, num(blocks * block.bytes));
      const QuantWeight weight{part.data(),          dtype, rows, end - begin, begin - first_block * block.values,
                               blocks * block.values};
      const std::vector<float> x = random_floats(2 * (end - begin), 4);
      std::vector<double> exact(num(2 * rows));
      quant_matmul_naive(2, weight, x.data(), end - begin, exact.data(), rows);
      const std::vector<float> best = by_variant(quant_variant(), 2, weight, x.data(), end - begin);
      expect_near(best, exact, std::string(to_string(dtype)) + " from " + std::to_string(begin));
      for (const QuantVariant* variant : all_variants())
        ASSERT_TRUE(same_bits(best, by_variant(*variant, 2, weight, x.data(), end - begin)))
            << variant->name << " " << to_string(dtype) << " " << begin << " to " << end;
    }
  }
}

TEST(QuantRows, BitsDependNeitherOnThreadsNorOnTheBatch) {
  const std::int64_t rows = 203, cols = 512, m = 23;
  const std::vector<float> x = random_floats(m * cols, 5), bias = random_floats(rows, 6);
  for (const Dtype dtype : kFormats) {
    const std::vector<std::byte> w = random_blocks(dtype, rows, cols, 7);
    const QuantWeight weight{w.data(), dtype, rows, cols, 0, cols, bias.data()};
    ThreadPool one(1), three(3);
    std::vector<float> batched(num(m * rows)), shared(num(m * rows)), single(num(m * rows));
    quant_matmul(one, m, weight, x.data(), cols, batched.data(), rows);
    quant_matmul(three, m, weight, x.data(), cols, shared.data(), rows);
    for (std::int64_t i = 0; i < m; ++i)
      quant_matmul(i % 2 == 0 ? one : three, 1, weight, x.data() + i * cols, cols, single.data() + i * rows, rows);
    EXPECT_TRUE(same_bits(batched, shared)) << to_string(dtype);
    EXPECT_TRUE(same_bits(batched, single)) << to_string(dtype);
    std::vector<double> exact(num(m * rows));
    quant_matmul_naive(m, weight, x.data(), cols, exact.data(), rows);
    expect_near(batched, exact, std::string(to_string(dtype)));
  }
}

// Rows that fill a panel and rows that do not; columns that begin and end inside blocks.
TEST(QuantRows, PanelsHaveTheSameBits) {
  for (const Dtype dtype : kFormats)
    for (const std::int64_t rows : {1, 8, 19, 32})
      for (const auto& [first, cols] :
           {std::pair<std::int64_t, std::int64_t>{0, 512}, {0, 800}, {96, 416}, {17, 300}}) {
        const std::int64_t values = block_shape(dtype).values, before = first % values;
        const std::int64_t ld = (before + cols + values - 1) / values * values;
        const std::vector<std::byte> w = random_blocks(dtype, rows, ld, 9);
        const QuantWeight weight{w.data(), dtype, rows, cols, before, ld};
        for (const std::int64_t m : {1, 6, 15}) {
          const std::vector<float> x = random_floats(m * cols, 10);
          for (const QuantVariant* variant : all_variants()) {
            if (variant->panels.dot == nullptr) continue;
            ASSERT_TRUE(same_bits(by_variant(*variant, m, weight, x.data(), cols, Way::rows),
                                  by_variant(*variant, m, weight, x.data(), cols, Way::panels)))
                << variant->name << " " << to_string(dtype) << " " << rows << " x " << cols << " m " << m;
          }
        }
      }
}

// The largest integers of both sides: nothing saturates on the way.
TEST(QuantRows, TheLargestIntegersDoNotOverflow) {
  const std::int64_t cols = 256;
  for (const Dtype dtype : kFormats)
    for (const int sign : {-1, 1}) {
      std::vector<std::byte> w(num(row_bytes(dtype, cols)), std::byte{0});
      const DtypeBlock block = block_shape(dtype);
      for (std::int64_t b = 0; b < cols / block.values; ++b) {
        std::byte* at = w.data() + b * block.bytes;
        std::memset(at,
                    sign < 0 && dtype == Dtype::q8_0 ? 0x80
                    : sign < 0                       ? 0
                    : dtype == Dtype::q8_0           ? 0x7f
                                                     : 0xff,
                    num(block.bytes));
        const std::uint16_t one = 0x3c00;  // as a half
        for (const int place : dtype == Dtype::q6_k ? std::vector<int>{208} : std::vector<int>{0})
          std::memcpy(at + place, &one, 2);
        if (dtype == Dtype::q4_k) std::memcpy(at + 2, &one, 2);
        if (dtype == Dtype::q6_k) std::memset(at + 192, 0x80, 16);
      }
      const std::vector<float> x(num(cols), 127.0f * static_cast<float>(sign));
      const std::vector<std::byte> one_row = w;  // and three like it: rows are made several at a time
      for (int row = 0; row < 3; ++row) w.insert(w.end(), one_row.begin(), one_row.end());
      const QuantWeight weight{w.data(), dtype, 4, cols, 0, cols};
      double exact_rows[4] = {};
      quant_matmul_naive(1, weight, x.data(), cols, exact_rows, 4);
      const double exact = exact_rows[3];
      for (const QuantVariant* variant : all_variants())
        for (const Way way : {Way::rows, Way::panels}) {
          if (way == Way::panels && variant->panels.dot == nullptr) continue;
          EXPECT_NEAR(by_variant(*variant, 1, weight, x.data(), cols, way)[3], exact, 1e-5 * std::abs(exact) + 1e-9)
              << variant->name << " " << to_string(dtype);
        }
    }
}

TEST(QuantRows, ZeroSmallAndInfiniteActivations) {
  const std::int64_t cols = 256;
  const std::vector<std::byte> w = random_blocks(Dtype::q4_k, 2, cols, 8);
  const QuantWeight weight{w.data(), Dtype::q4_k, 2, cols, 0, cols};
  for (const QuantVariant* variant : all_variants()) {
    EXPECT_EQ(by_variant(*variant, 1, weight, std::vector<float>(256, 0.0f).data(), cols)[0], 0.0f);
    EXPECT_EQ(by_variant(*variant, 1, weight, std::vector<float>(256, 1e-40f).data(), cols)[1], 0.0f);
    std::vector<float> x(256, 1.0f);
    x[40] = INFINITY;
    EXPECT_TRUE(std::isnan(by_variant(*variant, 1, weight, x.data(), cols)[0])) << variant->name;
    x[40] = NAN;
    EXPECT_TRUE(std::isnan(by_variant(*variant, 1, weight, x.data(), cols)[1])) << variant->name;
  }
}

// One large value costs the other parts of its block little: their factors are the smallest that suffice.
TEST(QuantRows, PartsOfABlockHaveStepsOfTheirOwn) {
  for (const Dtype dtype : {Dtype::q4_k, Dtype::q6_k}) {
    std::vector<float> x = random_floats(256, 11);
    for (int j = 0; j < 256; ++j) x[at(j)] *= static_cast<float>(j / 32 + 1) / 8;
    x[255] = 1;
    std::int8_t bytes[256];
    float scales[8];
    std::int32_t offsets[8];
    std::int16_t sums[16], factors[8];
    kBaselineQuant.round({x.data(), 256, 0, dtype}, {8, bytes, scales, offsets, sums, factors});
    for (int s = 0; s < 8; ++s) {
      float most = 0;
      for (int j = 32 * s; j < 32 * s + 32; ++j) {
        most = std::max(most, std::abs(x[at(j)]));
        EXPECT_LE(std::abs(x[at(j)] - scales[0] * static_cast<float>(factors[s] * bytes[j])),
                  0.5001f * scales[0] * static_cast<float>(factors[s]));
      }
      EXPECT_GE(scales[0] * static_cast<float>(factors[s]) * 127.0001f, most);
      EXPECT_LT(scales[0] * static_cast<float>(factors[s] - 1) * 127, most) << "part " << s;
    }
    EXPECT_EQ(factors[7], largest_factor(dtype));
  }
}

TEST(QuantRows, WrongSizesAreRefused) {
  ThreadPool threads(1);
  float x[512] = {}, y[4] = {};
  std::byte w[1024] = {};
  const auto said = [&](const QuantWeight& weight, std::int64_t ldx = 512) {
    return refusal([&] { quant_matmul(threads, 1, weight, x, ldx, y, 4); });
  };
  EXPECT_EQ(said({w, Dtype::bf16, 1, 32, 0, 32}),
            "the weights of a product in blocks are bf16; use q8_0, q4_0, q4_k or q6_k");
  EXPECT_NE(said({w, Dtype::q4_k, 1, 256, 0, 128}), "did not throw");
  EXPECT_NE(said({w, Dtype::q8_0, 1, 32, 32, 64}), "did not throw") << "the first block has the first column";
  EXPECT_NE(said({w, Dtype::q4_k, 1, 256, 128, 256}), "did not throw");
  EXPECT_NE(said({w, Dtype::q8_0, 1, 64, 0, 64}, 63), "did not throw");
  EXPECT_NE(said({w, Dtype::q8_0, -1, 64, 0, 64}), "did not throw");
}

}  // namespace
}  // namespace weft
