// Plans and inputs for tests of the CUDA executor, with and without a GPU.
#pragma once

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/exec/bindings.h"
#include "weft/exec/cuda/lane_table.h"
#include "weft/exec/cuda/small/gemv_table.h"
#include "weft/exec/ref/ref.h"

namespace weft::testing_cuda {

struct CudaCase {
  std::string name;
  std::int64_t m, n, k;  // k 0: a copy
  std::array<std::int64_t, 2> tile;
  int ranks;
  Route route;  // local: keep
  WeightLayout layout = WeightLayout::kn;
  SpaceKind space = SpaceKind::reduce_scatter;
  bool gathers = false;  // all_gather into the gemm
  bool bias = false, residual = false;
  Activation activation = Activation::none;
  int slices = 0;
  std::optional<Dtype> wire_sums = {};
  std::vector<std::int64_t> rows = {};  // all_to_all, uneven
  int depth = 1;                        // copies of inboxes
  Dtype bias_type = Dtype::f32, residual_type = Dtype::f32;
  Dtype sums = Dtype::bf16;  // of what is sent and of y; of a copy also of x
};

inline Space space_of(const CudaCase& c) {
  Space space{c.space, Mesh({{"tp", c.ranks}}), "tp", {}};
  space.options.route = c.route;
  if (c.space == SpaceKind::reduce_scatter || c.space == SpaceKind::all_reduce) space.options.wire = c.sums;
  space.options.slices = c.slices;
  space.options.wire_sums = c.wire_sums;
  space.options.rows = c.rows;
  return space;
}

// A product of few rows, summed on every rank in tiles that the gemv kernel makes.
inline CudaCase gemv_case(std::int64_t rows, std::int64_t n, std::int64_t k, int ranks) {
  return {"gemv",
          rows,
          n,
          k,
          {rows, kGemvCols},
          ranks,
          ranks > 1 ? Route::one_shot : Route::local,
          WeightLayout::nk,
          SpaceKind::all_reduce};
}

inline Plan plan_of(const CudaCase& c) {
  const Producer p = c.k == 0 ? copy({.rows = c.m, .cols = c.n, .tile = c.tile, .dtype = c.sums})
                              : gemm({.m = c.m,
                                      .n = c.n,
                                      .k = c.k,
                                      .weight = Dtype::bf16,
                                      .tile = c.tile,
                                      .bias = c.bias,
                                      .residual = c.residual,
                                      .activation = c.activation,
                                      .x = Dtype::bf16,
                                      .y = c.sums,
                                      .layout = c.layout});
  Plan plan = c.route == Route::local ? build(p, keep()) : c.gathers ? build(space_of(c), p) : build(p, space_of(c));
  for (Buffer& b : plan.buffers)
    if (b.packing.tile_rows > 0) b.depth = c.depth;
  return plan;
}

struct Operands {
  std::vector<bf16> x, w;             // w as the case's layout has it
  std::vector<float> wide_x;          // instead of x: of a copy of f32
  std::vector<float> bias, residual;  // that their types hold exactly
  Dtype bias_type = Dtype::f32, residual_type = Dtype::f32;

  const void* x_data() const { return wide_x.empty() ? static_cast<const void*>(x.data()) : wide_x.data(); }
};

inline Operands operands_of(const CudaCase& c, int rank, std::uint64_t seed) {
  std::mt19937_64 random(seed * 7919 + static_cast<std::uint64_t>(rank));
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  const auto drawn = [&](Dtype type) {
    const float value = uniform(random);
    return type == Dtype::bf16 ? to_float(to_bf16(value)) : value;
  };
  Operands out;
  out.bias_type = c.bias_type, out.residual_type = c.residual_type;
  for (std::int64_t i = 0; i < c.m * (c.k > 0 ? c.k : c.n); ++i) {
    const float value = uniform(random);
    if (c.k == 0 && c.sums == Dtype::f32)
      out.wide_x.push_back(value);
    else
      out.x.push_back(to_bf16(value));
  }
  for (std::int64_t i = 0; i < c.k * c.n; ++i) out.w.push_back(to_bf16(uniform(random)));
  for (std::int64_t i = 0; c.bias && i < c.n; ++i) out.bias.push_back(drawn(c.bias_type));
  for (std::int64_t i = 0; c.residual && i < c.m * c.n; ++i) out.residual.push_back(drawn(c.residual_type));
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
inline std::vector<std::vector<float>> reference_of(const Plan& plan, const std::vector<Operands>& operands,
                                                    std::span<const Counts> counts = {}) {
  RefExecutor ref(plan);
  std::vector<Bindings> bindings;
  for (const Operands& o : operands) {
    Bindings b;
    b.producers.emplace_back();
    if (o.wide_x.empty())
      b.producers[0].narrow_x = o.x.data();
    else
      b.producers[0].x = o.wide_x.data();
    b.producers[0].w = o.w.data();
    b.producers[0].bias = o.bias.data(), b.producers[0].residual = o.residual.data();
    b.buffers.assign(plan.buffers.size(), o.x_data());
    bindings.push_back(std::move(b));
  }
  ref.run(bindings, counts);
  std::vector<std::vector<float>> out;
  for (int r = 0; r < plan.num_ranks; ++r) out.push_back(ref.output(r));
  return out;
}

// A plan with fewer rows than it was built for.
struct CountedCase {
  CudaCase plan;
  std::vector<std::int64_t> peers;  // the same on every rank; or those of rank r at [r * ranks]
  std::int64_t rows;

  std::vector<Counts> counts() const {  // pointing into this
    std::vector<Counts> out(num(plan.ranks));
    const std::size_t ranks = out.size();
    for (std::size_t r = 0; r < ranks; ++r) {
      out[r].rows = rows;
      out[r].peers = peers.size() > ranks ? std::span(peers).subspan(r * ranks, ranks) : std::span(peers);
    }
    return out;
  }
};

inline std::vector<CountedCase> counted_cases() {
  std::vector<CountedCase> out;
  const auto add = [&](Route route, SpaceKind space) {
    const bool to_all = space == SpaceKind::all_to_all;
    const CudaCase c{std::string(to_string(route)), 780, 264, 16, {128, 256}, 3, route, WeightLayout::nk, space};
    out.push_back({c, to_all ? std::vector<std::int64_t>{0, 77, 260} : std::vector<std::int64_t>{}, to_all ? -1 : 300});
  };
  add(Route::direct, SpaceKind::all_to_all);
  add(Route::staged, SpaceKind::all_to_all);
  add(Route::ring, SpaceKind::reduce_scatter);
  add(Route::two_shot, SpaceKind::all_reduce);
  add(Route::ring, SpaceKind::all_reduce);
  // Each rank's own: whole tiles and parts, nothing, everything; peers that are paired have as many tiles, or not.
  const CudaCase routed{"routed", 1600, 520, 16, {128, 256}, 4, Route::direct, WeightLayout::nk, SpaceKind::all_to_all};
  out.push_back({routed, {0, 400, 77, 128, 129, 256, 300, 1, 400, 0, 0, 400, 0, 0, 0, 0}, -1});
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

// All that a plan may ask for beside a reduce-scatter: triggers that copy and sum, rows that are gathered, copies as
// producers, epilogues, uneven parts, several copies of an inbox.
inline std::vector<CudaCase> other_cases() {
  std::vector<CudaCase> out;
  const auto add = [&](std::string name, CudaCase c) {
    c.name = fmt::format("{} {}x{}x{} on {}", name, c.m, c.n, c.k, c.ranks);
    out.push_back(std::move(c));
  };
  for (const int ranks : {2, 3, 4}) {
    for (const Route route : {Route::ring, Route::one_shot, Route::two_shot, Route::ring_shot})
      for (const std::int64_t k : {16, 0}) {
        CudaCase c{"", 400, 264, k, {128, 256}, ranks, route, WeightLayout::kn, SpaceKind::all_reduce};
        add(fmt::format("all_reduce {}", to_string(route)), c);
        if (ranks != 3) continue;
        c.m = 808, c.n = 328, c.slices = 2, c.layout = WeightLayout::nk;
        if (k > 0) c.bias = true, c.residual = true, c.activation = Activation::silu;
        add(fmt::format("all_reduce {} in slices", to_string(route)), c);
        if (route == Route::one_shot || route == Route::ring_shot) continue;
        c.wire_sums = c.bias_type = c.residual_type = Dtype::bf16;
        add(fmt::format("all_reduce {} of narrow sums", to_string(route)), c);
      }
    for (const Route route : {Route::ring, Route::direct, Route::staged}) {
      CudaCase c{"", 200, 264, 72, {128, 256}, ranks, route, WeightLayout::kn, SpaceKind::all_gather};
      c.gathers = true;
      add(fmt::format("all_gather {} into a gemm", to_string(route)), c);
      if (ranks != 3) continue;
      c.m = 256, c.n = 72, c.k = 600, c.layout = WeightLayout::nk, c.bias = true, c.activation = Activation::gelu;
      if (route == Route::direct) c.bias_type = Dtype::bf16;
      add(fmt::format("all_gather {} into a gemm with an epilogue", to_string(route)), c);
    }
    for (const Route route : {Route::ring, Route::direct})
      for (const std::int64_t k : {16, 0})
        add(fmt::format("all_gather {}", to_string(route)),
            {"", 200, 264, k, {128, 256}, ranks, route, WeightLayout::kn, SpaceKind::all_gather});
    for (const Route route : {Route::direct, Route::staged})
      for (const std::int64_t k : {16, 0}) {
        CudaCase c{"", 520, 264, k, {128, 256}, ranks, route, WeightLayout::kn, SpaceKind::all_to_all};
        add(fmt::format("all_to_all {}", to_string(route)), c);
        for (int i = 0; i < ranks * ranks; ++i) c.rows.push_back(i % 3 * 60);
        add(fmt::format("all_to_all {}, uneven", to_string(route)), c);
      }
    add("broadcast", {"", 200, 264, 16, {128, 256}, ranks, Route::chain, WeightLayout::kn, SpaceKind::broadcast});
  }
  for (const Route route : {Route::ring, Route::direct}) {
    CudaCase c{"", 400, 264, 16, {128, 256}, 4, route};
    c.bias = c.residual = true, c.activation = Activation::relu, c.depth = 2;
    if (route == Route::ring) c.bias_type = c.residual_type = Dtype::bf16;
    add(fmt::format("reduce_scatter {} with an epilogue, two inboxes", to_string(route)), c);
    c.bias = c.residual = false, c.activation = Activation::none, c.k = 0;
    add(fmt::format("reduce_scatter {} of x", to_string(route)), c);
  }
  CudaCase c{"", 300, 264, 16, {128, 256}, 1, Route::local};
  c.bias = c.residual = true, c.activation = Activation::gelu;
  for (const Dtype bias : {Dtype::f32, Dtype::bf16})
    for (const Dtype residual : {Dtype::f32, Dtype::bf16}) {
      c.bias_type = bias, c.residual_type = residual;
      add(fmt::format("keep with an epilogue, bias {} and residual {}", to_string(bias), to_string(residual)), c);
    }
  return out;
}

// The same in f32, in tiles of half as many columns. What is narrower on some of its ways is refused there.
inline std::vector<CudaCase> wide_cases() {
  std::vector<CudaCase> out;
  for (const auto& cases : {small_cases(), other_cases()})
    for (CudaCase c : cases) {
      if (c.wire_sums) continue;
      c.name += ", f32";
      c.sums = Dtype::f32;
      c.tile[1] = std::min<std::int64_t>(c.tile[1], kCudaTileCols / 2);
      out.push_back(std::move(c));
    }
  return out;
}

}  // namespace weft::testing_cuda
