// A mesh of two axes: along "tp" a gemm is reduced and scattered, along "dp" the results of the replicas are summed.
// An op belongs to one axis; each of its groups runs the same plan.
//
//   weft run -n 4 -- 08_mesh_2d
#include <cstdint>
#include <cstdio>
#include <vector>

#include "weft/weft.h"

namespace {

constexpr std::int64_t kM = 64, kN = 96, kK = 32;

float x_at(int rank, std::int64_t i, std::int64_t p) { return static_cast<float>((i + p + 2 * rank) % 5 - 2); }
float w_at(int rank, std::int64_t p, std::int64_t j) { return static_cast<float>((3 * p + j + rank) % 3 - 1); }

float product(int rank, std::int64_t i, std::int64_t j) {
  float sum = 0;
  for (std::int64_t p = 0; p < kK; ++p) sum += x_at(rank, i, p) * w_at(rank, p, j);
  return sum;
}

int run(int argc, char** argv) {
  weft::World world = weft::World::init(argc, argv);
  if (world.size() % 2 != 0) return std::fprintf(stderr, "%d ranks do not make two replicas; use 4\n", world.size()), 2;
  const weft::Mesh mesh = world.mesh({{"dp", 2}, {"tp", world.size() / 2}});
  weft::Op layer = world.compile(weft::gemm({.m = kM, .n = kN, .k = kK}), weft::reduce_scatter(mesh, "tp"));
  const weft::Group shards = mesh.group("tp", world.rank());
  const std::int64_t begin = weft::cut(kM, shards.size(), shards.position);
  const std::int64_t rows = weft::cut(kM, shards.size(), shards.position + 1) - begin;
  // Every rank of the world compiles; ranks of one group give the same arguments.
  weft::Op sum = world.compile(weft::copy({.rows = rows, .cols = kN}), weft::all_reduce(mesh, "dp"));

  std::vector<float> x(kM * kK), w(kK * kN);
  for (std::int64_t i = 0; i < kM * kK; ++i) x[i] = x_at(world.rank(), i / kK, i % kK);
  for (std::int64_t i = 0; i < kK * kN; ++i) w[i] = w_at(world.rank(), i / kN, i % kN);
  layer.run(x.data(), w.data());
  sum.run(layer.output().data);
  const weft::Matrix y = sum.output();

  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t j = 0; j < y.cols; ++j) {
      float wanted = 0;
      for (int r = 0; r < world.size(); ++r) wanted += product(r, begin + i, j);
      if (y.row(i)[j] != wanted)
        return std::fprintf(stderr, "rank %d: row %ld is wrong\n", world.rank(), static_cast<long>(i)), 1;
    }
  if (world.rank() == 0) std::printf("ok %s\n", weft::to_string(mesh).c_str());
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
