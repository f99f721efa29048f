#include "weft/kernel/gemm/gemm.h"

#include <cmath>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/kernel/random_test.h"
#include "weft/kernel/reference.h"
#include "weft/kernel/variant.h"

namespace weft {
namespace {

constexpr float kUntouched = 12345.0f;

struct Problem {
  Problem(std::int64_t rows, std::int64_t cols, std::int64_t k, Dtype b_dtype)
      : rows(rows),
        cols(cols),
        k(k),
        lda(k + 3),
        ldb(cols + 5),
        b_dtype(b_dtype),
        a(random_floats(rows * lda, 1)),
        b(random_bytes(std::max<std::int64_t>(k, 1) * ldb, b_dtype, 2)) {}

  GemmShape shape(std::int64_t tile_rows, std::int64_t tile_cols) const {
    return {.tile_rows = tile_rows, .tile_cols = tile_cols, .k = k, .lda = lda, .ldb = ldb, .b_dtype = b_dtype};
  }
  std::vector<float> run(const GemmKernel& kernel, std::int64_t ldc) const {
    std::vector<float> c(num(rows * ldc), kUntouched);
    std::vector<char> scratch(kernel.scratch_bytes());
    kernel.run(rows, cols, a.data(), b.data(), {c.data(), ldc}, scratch.data());
    return c;
  }
  void expect_right(const std::vector<float>& c, std::int64_t ldc, const std::string& what) const {
    std::vector<double> exact(num(rows * cols));
    gemm_f64(rows, cols, k, {a.data(), lda, Dtype::f32}, {b.data(), ldb, b_dtype}, exact.data(), cols);
    // A chain of k terms in [-1, 1]: partial sums grow like sqrt(k), their roundings add up like sqrt(k)
    // more.
    const double bound = 8 * 0x1p-24 * static_cast<double>(k + 1);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < ldc; ++j) {
        const float got = c[at(i * ldc + j)];
        if (j >= cols) {
          ASSERT_EQ(got, kUntouched) << what << " wrote past column " << cols;
        } else {
          ASSERT_NEAR(got, exact[at(i * cols + j)], bound) << what << " at " << i << ", " << j;
        }
      }
  }

  std::int64_t rows, cols, k, lda, ldb;
  Dtype b_dtype;
  std::vector<float> a;
  std::vector<char> b;
};

std::string describe(const Problem& problem, Isa isa) {
  return fmt::format("{} {}x{}x{} {}", to_string(isa), problem.rows, problem.cols, problem.k,
                     to_string(problem.b_dtype));
}

TEST(Gemm, AgreesWithTheReferenceOnEveryVariant) {
  const std::int64_t shapes[][3] = {{1, 1, 1},    {7, 5, 3},     {8, 32, 16},   {13, 31, 29},  {64, 64, 128},
                                    {3, 97, 255}, {61, 67, 256}, {17, 33, 257}, {64, 16, 700}, {5, 48, 1031}};
  for (const auto& s : shapes)
    for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (Isa isa : reachable_isas()) {
        const Problem problem(s[0], s[1], s[2], dtype);
        const GemmKernel kernel(problem.shape(s[0], s[1] + 3), isa);
        problem.expect_right(problem.run(kernel, s[1] + 3), s[1] + 3, describe(problem, isa));
      }
}

// b as linear layers keep it: the bits are those of b itself, packed ahead or not.
TEST(Gemm, TheTransposeOfBGivesTheBitsOfB) {
  const std::int64_t shapes[][3] = {{1, 1, 1},    {7, 5, 3},     {8, 64, 64},    {13, 31, 29},  {64, 64, 128},
                                    {3, 97, 255}, {61, 67, 256}, {17, 129, 257}, {4, 16, 1031}, {70, 130, 1030}};
  for (const auto& s : shapes)
    for (Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (Isa isa : reachable_isas()) {
        const Problem problem(s[0], s[1], s[2], dtype);
        const std::int64_t ldb = problem.k + 7;
        const std::size_t size = size_of(dtype);
        std::vector<char> turned(num(problem.cols * ldb) * size);
        for (std::int64_t p = 0; p < problem.k; ++p)
          for (std::int64_t j = 0; j < problem.cols; ++j)
            std::memcpy(&turned[at(j * ldb + p) * size], &problem.b[at(p * problem.ldb + j) * size], size);
        GemmShape shape = problem.shape(s[0], s[1]);
        const std::vector<float> want = problem.run(GemmKernel(shape, isa), problem.cols);
        shape.b_transposed = true, shape.ldb = ldb;
        const GemmKernel kernel(shape, isa);
        std::vector<char> scratch(kernel.scratch_bytes());
        std::vector<float> got(want.size()), packed(num(kernel.packed_floats(problem.cols)));
        kernel.run(problem.rows, problem.cols, problem.a.data(), turned.data(), {got.data(), problem.cols},
                   scratch.data());
        ASSERT_TRUE(same_bits(want, got)) << describe(problem, isa);
        kernel.pack(problem.cols, turned.data(), packed.data());
        kernel.run_packed(problem.rows, problem.cols, problem.a.data(), packed.data(), {got.data(), problem.cols});
        ASSERT_TRUE(same_bits(want, got)) << describe(problem, isa) << " packed";
      }
}

TEST(Gemm, NoInnerDimensionGivesZeros) {
  for (Isa isa : reachable_isas()) {
    const Problem problem(5, 7, 0, Dtype::f32);
    const GemmKernel kernel(problem.shape(5, 7), isa);
    problem.expect_right(problem.run(kernel, 7), 7, describe(problem, isa));
  }
}

TEST(Gemm, SmallerTilesAndOtherLeadingDimensionsAreRightToo) {
  for (Isa isa : reachable_isas()) {
    for (std::int64_t rows : {16, 9, 1})
      for (std::int64_t cols : {16, 11}) {
        const Problem problem(rows, cols, 300, Dtype::f32);
        const GemmKernel kernel(problem.shape(16, 16), isa);
        problem.expect_right(problem.run(kernel, 16), 16, describe(problem, isa));
        problem.expect_right(problem.run(kernel, 21), 21, describe(problem, isa));
      }
  }
}

TEST(Gemm, ATileServesEveryHeight) {
  for (Isa isa : reachable_isas())
    for (std::int64_t rows = 0; rows <= 37; ++rows) {
      const Problem problem(rows, 24, 270, Dtype::bf16);
      const GemmKernel kernel(problem.shape(37, 24), isa);
      problem.expect_right(problem.run(kernel, 24), 24, describe(problem, isa));
    }
}

// 96 rows as tiles of 32 from the top, and as the same tiles made by three threads at once.
TEST(Gemm, ATileHasTheSameBitsWhoeverMakesItAndWhen) {
  const Problem problem(96, 40, 513, Dtype::f32);
  for (Isa isa : reachable_isas()) {
    const GemmKernel kernel(problem.shape(32, 40), isa);
    const auto make = [&](std::vector<float>& c, std::int64_t tile) {
      std::vector<char> scratch(kernel.scratch_bytes());
      kernel.run(32, 40, problem.a.data() + tile * 32 * problem.lda, problem.b.data(), {c.data() + tile * 32 * 40, 40},
                 scratch.data());
    };
    std::vector<float> in_order(96 * 40), by_threads(96 * 40);
    for (std::int64_t tile : {0, 1, 2}) make(in_order, tile);
    std::vector<std::thread> threads;
    for (std::int64_t tile : {2, 1, 0}) threads.emplace_back([&, tile] { make(by_threads, tile); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(same_bits(in_order, by_threads)) << describe(problem, isa);
  }
}

// How rows and columns are cut into tiles does not show.
TEST(Gemm, BitsDoNotDependOnTheTile) {
  const Problem problem(29, 75, 600, Dtype::f32);
  for (Isa isa : reachable_isas()) {
    const GemmKernel whole(problem.shape(29, 75), isa);
    const GemmKernel cut(problem.shape(11, 13), isa);
    std::vector<char> scratch(cut.scratch_bytes());
    std::vector<float> c(29 * 75);
    for (std::int64_t i = 0; i < 29; i += 11)
      for (std::int64_t j = 0; j < 75; j += 13)
        cut.run(std::min<std::int64_t>(11, 29 - i), std::min<std::int64_t>(13, 75 - j),
                problem.a.data() + i * problem.lda, problem.b.data() + j * 4, {c.data() + i * 75 + j, 75},
                scratch.data());
    EXPECT_TRUE(same_bits(problem.run(whole, 75), c)) << to_string(isa);
  }
}

TEST(Gemm, BaselineHasTheBitsOfTheNaiveLoop) {
  const Problem problem(19, 37, 600, Dtype::bf16);
  std::vector<float> naive(19 * 37);
  gemm_naive(19, 37, 600, {problem.a.data(), problem.lda, Dtype::f32}, {problem.b.data(), problem.ldb, Dtype::bf16},
             naive.data(), 37);
  const GemmKernel kernel(problem.shape(19, 37), Isa::baseline);
  EXPECT_TRUE(same_bits(problem.run(kernel, 37), naive));
}

std::vector<float> fused_chain(const Problem& problem) {
  std::vector<float> c;
  for (std::int64_t i = 0; i < problem.rows; ++i)
    for (std::int64_t j = 0; j < problem.cols; ++j) {
      float total = 0;
      for (std::int64_t p = 0; p < problem.k; ++p)
        total = std::fma(problem.a[at(i * problem.lda + p)],
                         element_at({problem.b.data(), problem.ldb, problem.b_dtype}, p, j), total);
      c.push_back(total);
    }
  return c;
}

// Heights and widths on both sides of every block size: no tile may show in the bits.
TEST(Gemm, EveryKernelWithFmaIsOneChainInOrderOfK) {
  if (machine_isa() == Isa::baseline) GTEST_SKIP() << "no fma here";
  for (std::int64_t rows : {1, 2, 5, 8, 11, 12, 31})
    for (std::int64_t cols : {1, 5, 16, 17, 48, 64, 65, 80, 81, 128, 130})
      for (std::int64_t k : {5, 300}) {
        const Problem problem(rows, cols, k, k == 5 ? Dtype::f32 : Dtype::bf16);
        const std::vector<float> chain = fused_chain(problem);
        for (Isa isa : reachable_isas()) {
          if (isa == Isa::baseline) continue;
          const GemmKernel kernel(problem.shape(rows, cols), isa);
          ASSERT_TRUE(same_bits(problem.run(kernel, cols), chain)) << describe(problem, isa);
        }
      }
}

// One panel and several, whole registers and a part of one, one block of k and two.
TEST(Gemm, PackedColumnsAndAddendsGiveTheSameBitsAsTheirParts) {
  for (std::int64_t rows : {1, 4, 9})
    for (std::int64_t cols : {5, 64, 150})
      for (std::int64_t k : {0, 33, 1100})
        for (Isa isa : reachable_isas()) {
          const Problem problem(rows, cols, k, k == 33 ? Dtype::bf16 : Dtype::f32);
          const GemmKernel kernel(problem.shape(rows, cols), isa);
          const std::vector<float> addend = random_floats(rows * (cols + 2), 3);
          std::vector<float> expected = problem.run(kernel, cols + 1);
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < cols; ++j) {
              float& value = expected[at(i * (cols + 1) + j)];
              value = addend[at(i * (cols + 2) + j)] + value;
            }
          std::vector<float> packed(num(kernel.packed_floats(cols)));
          kernel.pack(cols, problem.b.data(), packed.data());
          std::vector<float> c(expected.size(), kUntouched), whole = c, twin = c;
          kernel.run_packed(rows, cols, problem.a.data(), packed.data(),
                            {c.data(), cols + 1, addend.data(), cols + 2, twin.data(), cols + 1});
          EXPECT_TRUE(same_bits(c, expected)) << describe(problem, isa);
          EXPECT_TRUE(same_bits(twin, expected)) << describe(problem, isa);
          std::vector<char> scratch(kernel.scratch_bytes());
          kernel.run(rows, cols, problem.a.data(), problem.b.data(), {whole.data(), cols + 1, addend.data(), cols + 2},
                     scratch.data());
          EXPECT_TRUE(same_bits(whole, expected)) << describe(problem, isa);
        }
}

// More rows than meet a panel at a time, several panels, and k in blocks of any size: none of it shows in the bits, nor
// in what lies beside the tile.
TEST(Gemm, ChunksOfRowsAndBlocksOfKDoNotShow) {
  const Problem problem(203, 150, 301, Dtype::f32);
  for (Isa isa : reachable_isas()) {
    GemmShape shape = problem.shape(203, 150);
    const auto made = [&](std::int64_t k_block) {
      shape.k_block = k_block;
      return problem.run(GemmKernel(shape, isa), 153);
    };
    const std::vector<float> whole = made(301);
    problem.expect_right(whole, 153, to_string(isa));
    for (const std::int64_t k_block : {0, 1, 8, 100, 1024})
      EXPECT_TRUE(same_bits(made(k_block), whole)) << to_string(isa) << " in blocks of " << k_block;
  }
}

// What a later call will pack is asked for, of whatever width and however b lies, and nothing else shows.
TEST(Gemm, ColumnsAskedForAheadDoNotShow) {
  constexpr std::int64_t kRows = 100, kCols = 150, kTile = 64;
  for (const bool transposed : {false, true})
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
      for (const std::int64_t k : {7, 64, 1100})
        for (Isa isa : reachable_isas()) {
          GemmShape shape{.tile_rows = kRows, .tile_cols = kTile, .k = k, .lda = k, .ldb = transposed ? k : kCols};
          shape.b_dtype = dtype, shape.b_transposed = transposed;
          const GemmKernel kernel(shape, isa);
          const std::vector<float> a = random_floats(kRows * k, 1);
          const std::vector<char> b = random_bytes(kCols * k, dtype, 2);
          std::vector<char> scratch(kernel.scratch_bytes());
          std::vector<float> want(kRows * kCols), got = want, ahead = want, packed(num(kernel.packed_floats(kTile)));
          for (std::int64_t col = 0; col < kCols; col += kTile) {
            const std::int64_t cols = std::min(kTile, kCols - col), column = transposed ? k : 1;
            const char* from = b.data() + num(col * column) * size_of(dtype);
            const GemmNext next{from + num(cols * column) * size_of(dtype), kCols - col - cols};
            kernel.run(kRows, cols, a.data(), from, {want.data() + col, kCols}, scratch.data());
            kernel.run(kRows, cols, a.data(), from, {got.data() + col, kCols}, scratch.data(), next);
            kernel.pack(cols, from, packed.data());
            kernel.run_packed(kRows, cols, a.data(), packed.data(), {ahead.data() + col, kCols}, next);
          }
          const std::string what = fmt::format("{} {} k {} {}", to_string(isa), to_string(dtype), k, transposed);
          EXPECT_TRUE(same_bits(want, got)) << what;
          EXPECT_TRUE(same_bits(want, ahead)) << what;
        }
}

// The lines that a block asks for ahead may lie anywhere, and a target may begin within a line.
TEST(Gemm, TargetsThatBeginWithinALineAreRight) {
  const Problem problem(64, 64, 40, Dtype::f32);
  for (Isa isa : reachable_isas()) {
    const GemmKernel kernel(problem.shape(64, 64), isa);
    const std::vector<float> want = problem.run(kernel, 64);
    std::vector<float> packed(num(kernel.packed_floats(64))), c(64 * 77 + 5, kUntouched);
    kernel.pack(64, problem.b.data(), packed.data());
    kernel.run_packed(64, 64, problem.a.data(), packed.data(), {c.data() + 5, 77});
    for (std::int64_t i = 0; i < 64; ++i)
      for (std::int64_t j = 0; j < 77 && 5 + i * 77 + j < std::ssize(c); ++j)
        ASSERT_EQ(c[at(5 + i * 77 + j)], j < 64 ? want[at(i * 64 + j)] : kUntouched) << to_string(isa) << " " << i;
  }
}

TEST(Gemm, RefusesWhatItCannotRunAndSaysWhy) {
  const auto message = [](const GemmShape& shape) -> std::string {
    try {
      const GemmKernel kernel(shape);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_input);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({.tile_rows = 0, .tile_cols = 4, .k = 4, .lda = 4, .ldb = 4}).find("0 x 4"), std::string::npos);
  EXPECT_NE(message({.tile_rows = 4, .tile_cols = 4, .k = 8, .lda = 4, .ldb = 4}).find("lda >= k"), std::string::npos);
  EXPECT_NE(message({.tile_rows = 4, .tile_cols = 4, .k = 4, .lda = 4, .ldb = 4, .b_dtype = Dtype::i32}).find("i32"),
            std::string::npos);
}

}  // namespace
}  // namespace weft
