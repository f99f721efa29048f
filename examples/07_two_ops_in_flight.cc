// Two ops in flight: the second starts before the first one's result is there, and while one waits the other goes on.
// Ranks start their ops in the same order; results may be asked for in any.
//
//   weft run -n 2 -- 07_two_ops_in_flight
#include <cstdint>
#include <cstdio>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr std::int64_t kM = 128, kN = 192, kK = 64, kGrads = 5000;

int run(int argc, char** argv) {
  weft::World world = weft::World::init(argc, argv);
  const int ranks = world.size();
  const weft::Mesh mesh = world.mesh({{"tp", ranks}});
  weft::Op forward = world.compile(weft::gemm({.m = kM, .n = kN, .k = kK}), weft::reduce_scatter(mesh, "tp"));
  weft::Op gradients = world.compile(weft::copy({.rows = 1, .cols = kGrads}), weft::all_reduce(mesh, "tp"));

  std::vector<float> x(kM * kK), w(kK * kN, 1.0f), g(kGrads);
  float sum_of_ranks = 0;
  for (int r = 0; r < ranks; ++r) sum_of_ranks += static_cast<float>(r + 1);
  for (int step = 0; step < 20; ++step) {
    x.assign(x.size(), static_cast<float>(step + world.rank() + 1));
    g.assign(g.size(), static_cast<float>(step * (world.rank() + 1)));
    gradients.run(g.data());
    forward.run(x.data(), w.data());
    const float y = kK * (static_cast<float>(step * ranks) + sum_of_ranks);
    for (const float value : forward.output().values())
      if (value != y)
        return std::fprintf(stderr, "rank %d: step %d: y is %g, not %g\n", world.rank(), step, value, y), 1;
    for (const float value : gradients.output().values())
      if (value != static_cast<float>(step) * sum_of_ranks)
        return std::fprintf(stderr, "rank %d: step %d: a gradient is %g\n", world.rank(), step, value), 1;
  }
  if (world.rank() == 0) std::printf("ok %d ranks, 20 steps with two ops in flight\n", ranks);
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
