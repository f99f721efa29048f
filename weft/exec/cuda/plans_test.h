// Plans and inputs for tests of the CUDA executor, with and without a GPU.
#pragma once

#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/exec/bindings.h"
#include "weft/exec/cuda/lane_table.h"
#include "weft/exec/ref/ref.h"

namespace weft::testing_cuda {

struct CudaCase {
  std::string name;
  std::int64_t m, n, k;
  std::array<std::int64_t, 2> tile;
  int ranks;
  Route route;  // local: keep
  WeightLayout layout = WeightLayout::kn;
};

inline Plan plan_of(const CudaCase& c) {
  const Producer p = gemm({.m = c.m,
                           .n = c.n,
                           .k = c.k,
                           .weight = Dtype::bf16,
                           .tile = c.tile,
                           .x = Dtype::bf16,
                           .y = Dtype::bf16,
                           .layout = c.layout});
  const Mesh mesh({{"tp", c.ranks}});
  SpaceOptions options;
  options.route = c.route;
  options.wire = Dtype::bf16;
  return c.route == Route::local ? build(p, keep()) : build(p, reduce_scatter(mesh, "tp", options));
}

struct Operands {
  std::vector<bf16> x, w;  // w as the case's layout has it
};

inline Operands operands_of(const CudaCase& c, int rank, std::uint64_t seed) {
  std::mt19937_64 random(seed * 7919 + static_cast<std::uint64_t>(rank));
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  Operands out;
  for (std::int64_t i = 0; i < c.m * c.k; ++i) out.x.push_back(to_bf16(uniform(random)));
  for (std::int64_t i = 0; i < c.k * c.n; ++i) out.w.push_back(to_bf16(uniform(random)));
  return out;
}

// Counters of a rank that somebody raises; a family may have members that nobody does.
inline std::set<std::uint32_t> signalled(const DevicePlan& device, int rank) {
  std::set<std::uint32_t> out;
  for (const LaneTable& table : device.tables)
    for (const DeviceSignal& signal : table.signals)
      if (signal.rank == rank) out.insert(signal.counter);
  return out;
}

// What the reference executor gives on every rank.
inline std::vector<std::vector<float>> reference_of(const Plan& plan, const std::vector<Operands>& operands) {
  RefExecutor ref(plan);
  std::vector<Bindings> bindings;
  for (const Operands& o : operands) {
    Bindings b;
    b.producers.emplace_back();
    b.producers[0].narrow_x = o.x.data();
    b.producers[0].w = o.w.data();
    b.buffers.assign(plan.buffers.size(), nullptr);
    bindings.push_back(std::move(b));
  }
  ref.run(bindings);
  std::vector<std::vector<float>> out;
  for (int r = 0; r < plan.num_ranks; ++r) out.push_back(ref.output(r));
  return out;
}

// Ragged and whole tiles, tiles of the CPU and of the GPU, odd numbers of tile rows, fewer rows than ranks.
inline std::vector<CudaCase> small_cases() {
  std::vector<CudaCase> out;
  struct Shape {
    std::int64_t m, n, k;
    std::array<std::int64_t, 2> tile;
  };
  for (const Shape& s : {Shape{512, 512, 8, {128, 256}}, Shape{392, 264, 8, {128, 256}}, Shape{40, 24, 8, {128, 256}},
                         Shape{72, 136, 328, {64, 64}}, Shape{3, 8, 16, {128, 256}}, Shape{300, 520, 8, {56, 104}}})
    for (const int ranks : {1, 2, 3, 4})
      for (const Route route : {Route::local, Route::ring, Route::direct}) {
        if ((ranks == 1) != (route == Route::local)) continue;
        out.push_back(
            {fmt::format("{} {}x{}x{} on {} in {}x{}", to_string(route), s.m, s.n, s.k, ranks, s.tile[0], s.tile[1]),
             s.m, s.n, s.k, s.tile, ranks, route});
      }
  return out;
}

}  // namespace weft::testing_cuda
