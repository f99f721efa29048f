// A collective is an op too: its producer is a copy. The sum of every element is folded in one fixed order, so all
// routes and all runs give the same bits; the second run shows it.
//
//   weft run -n 4 -- 02_all_reduce_alone
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr std::int64_t kRows = 100, kCols = 300;

float value_at(int rank, std::int64_t i) { return std::sin(static_cast<float>(i) * 0.37f + static_cast<float>(rank)); }

bool all_close(const weft::Matrix& y, int ranks) {
  for (std::int64_t i = 0; i < y.rows * y.cols; ++i) {
    double sum = 0;
    for (int r = 0; r < ranks; ++r) sum += value_at(r, i);
    if (!(std::abs(y.data[i] - sum) < 1e-5)) return false;
  }
  return true;
}

int run(int argc, char** argv) {
  weft::World world = weft::World::init(argc, argv);
  const weft::Mesh mesh = world.mesh({{"dp", world.size()}});
  const weft::Producer gradients = weft::copy({.rows = kRows, .cols = kCols});
  weft::Op ring = world.compile(gradients, weft::all_reduce(mesh, "dp", {.route = weft::Route::ring}));
  weft::Op two_shot = world.compile(gradients, weft::all_reduce(mesh, "dp", {.route = weft::Route::two_shot}));

  std::vector<float> x(kRows * kCols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = value_at(world.rank(), static_cast<std::int64_t>(i));

  ring.run(x.data());
  const weft::Matrix first = ring.output();
  two_shot.run(x.data());
  const weft::Matrix second = two_shot.output();

  if (!all_close(first, world.size())) return std::fprintf(stderr, "rank %d: wrong sum\n", world.rank()), 1;
  if (std::memcmp(first.data, second.data, x.size() * sizeof(float)) != 0)
    return std::fprintf(stderr, "rank %d: routes differ\n", world.rank()), 1;
  if (world.rank() == 0) std::printf("ok %d ranks, ring and two_shot agree bit for bit\n", world.size());
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
