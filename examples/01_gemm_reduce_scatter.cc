// A gemm whose output is summed over the ranks, each rank keeping its part of the rows: one call instead of "gemm,
// then reduce-scatter". The tiles of the product leave as they are made, so most of the communication is hidden.
//
//   weft run -n 4 -- 01_gemm_reduce_scatter
#include <cstdint>
#include <cstdio>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr std::int64_t kM = 512, kN = 384, kK = 128;

// Small whole numbers: every sum is exact, so the check below can ask for equality.
float x_at(int rank, std::int64_t i, std::int64_t p) { return static_cast<float>((3 * i + 5 * p + rank) % 7 - 3); }
float w_at(int rank, std::int64_t p, std::int64_t j) { return static_cast<float>((2 * p + j + 3 * rank) % 5 - 2); }

float expected(int ranks, std::int64_t i, std::int64_t j) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r)
    for (std::int64_t p = 0; p < kK; ++p) sum += x_at(r, i, p) * w_at(r, p, j);
  return sum;
}

int run(int argc, char** argv) {
  weft::World world = weft::World::init(argc, argv);
  const weft::Mesh mesh = world.mesh({{"tp", world.size()}});
  weft::Op op = world.compile(weft::gemm({.m = kM, .n = kN, .k = kK}), weft::reduce_scatter(mesh, "tp"));

  std::vector<float> x(kM * kK), w(kK * kN);
  for (std::int64_t i = 0; i < kM; ++i)
    for (std::int64_t p = 0; p < kK; ++p) x[i * kK + p] = x_at(world.rank(), i, p);
  for (std::int64_t p = 0; p < kK; ++p)
    for (std::int64_t j = 0; j < kN; ++j) w[p * kN + j] = w_at(world.rank(), p, j);

  op.run(x.data(), w.data());             // returns when x and w may change
  const weft::Matrix mine = op.output();  // waits for what is owed to this rank

  const std::int64_t begin = weft::cut(kM, world.size(), world.rank());  // the first of this rank's rows
  for (std::int64_t i = 0; i < mine.rows; i += 37)
    for (std::int64_t j = 0; j < mine.cols; j += 41)
      if (mine.row(i)[j] != expected(world.size(), begin + i, j)) {
        std::fprintf(stderr, "rank %d: wrong at row %ld, column %ld\n", world.rank(), static_cast<long>(i),
                     static_cast<long>(j));
        return 1;
      }
  if (world.rank() == 0)
    std::printf("ok %d ranks, \"%s\", %ld rows here\n", world.size(), op.plan().name.c_str(),
                static_cast<long>(mine.rows));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == weft::Code::bad_input ? 2 : 1;
  }
}
