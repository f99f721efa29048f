// Decoding: a few vectors times a large matrix, summed over the ranks. The op is compiled once, for as many sequences
// as may ever be decoded together; each run says how many there are, which costs nothing to change.
//
//   weft run -n 2 -- 05_decode_gemv
#include <cstdint>
#include <cstdio>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr std::int64_t kCapacity = 8, kN = 600, kK = 256;

float x_at(int rank, int step, std::int64_t i, std::int64_t p) {
  return static_cast<float>((i + 3 * p + rank + step) % 5 - 2);
}
// Row-major by output, (n, k), as linear layers keep it.
float w_at(int rank, std::int64_t j, std::int64_t p) { return static_cast<float>((5 * j + p + 2 * rank) % 7 - 3); }

float expected(int ranks, int step, std::int64_t i, std::int64_t j) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r)
    for (std::int64_t p = 0; p < kK; ++p) sum += x_at(r, step, i, p) * w_at(r, j, p);
  return sum;
}

int run(int argc, char** argv) {
  weft::World world = weft::World::init(argc, argv);
  const weft::Mesh mesh = world.mesh({{"tp", world.size()}});
  weft::Op op = world.compile(weft::gemv({.m = kCapacity, .n = kN, .k = kK}), weft::all_reduce(mesh, "tp"));

  std::vector<float> x(kCapacity * kK), w(kN * kK);
  for (std::int64_t i = 0; i < kN * kK; ++i) w[i] = w_at(world.rank(), i / kK, i % kK);

  int step = 0;
  for (const std::int64_t sequences : {1, 3, 8, 5, 1}) {  // they come and go
    for (std::int64_t i = 0; i < sequences * kK; ++i) x[i] = x_at(world.rank(), step, i / kK, i % kK);
    weft::Inputs inputs;
    inputs.x = x.data(), inputs.w = w.data();
    op.run(inputs, {.rows = sequences});
    const weft::Matrix y = op.output();  // the first `sequences` rows count
    for (std::int64_t i = 0; i < sequences; ++i)
      for (std::int64_t j = 0; j < kN; j += 7)
        if (y.row(i)[j] != expected(world.size(), step, i, j))
          return std::fprintf(stderr, "rank %d: step %d, sequence %ld is wrong\n", world.rank(), step,
                              static_cast<long>(i)),
                 1;
    ++step;
  }
  if (world.rank() == 0)
    std::printf("ok %d ranks, %d steps of 1 to %ld sequences\n", world.size(), step, static_cast<long>(kCapacity));
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
