// The consumer's side: every rank has some rows of x and needs the product of all rows with its own columns of w. The
// tiles of the gemm start on the rows that are here and wait only for the rows they read.
//
//   weft run -n 4 -- 04_gather_gemm
#include <cstdint>
#include <cstdio>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr std::int64_t kM = 96, kN = 160, kK = 80;  // m: rows of one rank

float x_at(int rank, std::int64_t i, std::int64_t p) { return static_cast<float>((i + 2 * p + 3 * rank) % 5 - 2); }
float w_at(int rank, std::int64_t p, std::int64_t j) { return static_cast<float>((4 * p + 3 * j + rank) % 7 - 3); }

float expected(int rank, std::int64_t i, std::int64_t j) {
  float sum = 0;
  for (std::int64_t p = 0; p < kK; ++p) sum += x_at(static_cast<int>(i / kM), i % kM, p) * w_at(rank, p, j);
  return sum;
}

int run(int argc, char** argv) {
  weft::World world = weft::World::init(argc, argv);
  const weft::Mesh mesh = world.mesh({{"tp", world.size()}});
  // The space comes first: it feeds the gemm.
  weft::Op op = world.compile(weft::all_gather(mesh, "tp"), weft::gemm({.m = kM, .n = kN, .k = kK}));

  std::vector<float> x(kM * kK), w(kK * kN);
  for (std::int64_t i = 0; i < kM * kK; ++i) x[i] = x_at(world.rank(), i / kK, i % kK);
  for (std::int64_t i = 0; i < kK * kN; ++i) w[i] = w_at(world.rank(), i / kN, i % kN);
  for (int step = 0; step < 3; ++step) op.run(x.data(), w.data());  // again and again, with no barrier between
  const weft::Matrix y = op.output();

  if (y.rows != kM * world.size() || y.cols != kN) return std::fprintf(stderr, "wrong shape\n"), 1;
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t j = 0; j < y.cols; j += 3)
      if (y.row(i)[j] != expected(world.rank(), i, j))
        return std::fprintf(stderr, "rank %d: row %ld is wrong\n", world.rank(), static_cast<long>(i)), 1;
  if (world.rank() == 0)
    std::printf("ok %d ranks, \"%s\", %ld x %ld\n", world.size(), op.plan().name.c_str(), static_cast<long>(y.rows),
                static_cast<long>(y.cols));
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
