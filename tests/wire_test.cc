// Narrow wires (SpaceOptions::wire and wire_sums): every rank ends with the same bits, those of the reference executor,
// over memory, paced links and the wire; within the stated distance of the f32 result; and with the bytes that were
// meant.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/plan/price/traffic.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"
#include "weft/weft.h"

#include "tests/cases.h"

namespace weft::testing {
namespace {

// Whole numbers: products and their sums are exact, so that executors that make tiles in different ways round the same
// values. Ranks differ in magnitude.
Data whole_numbers(const Producer& p, int rank) {
  Data data = make_data(p, rank, 7);
  const auto whole = [&](std::vector<float>* values, float most) {
    for (float& value : *values) value = std::round(value * most);
  };
  whole(&data.x, 7.0f + static_cast<float>(rank));
  whole(&data.w, 5);
  for (std::size_t i = 0; i < data.w.size(); ++i) data.w_bf16[i] = to_bf16(data.w[i]).bits;
  whole(&data.addend, 100);
  whole(&data.bias, 30);
  whole(&data.residual, 1000);
  return data;
}

struct Shape {
  std::int64_t m, n, k, tile_cols;
};
// Less than a block, whole blocks, a short last block in the last of several tiles, fewer rows than ranks.
constexpr Shape kShapes[] = {{5, 17, 3, 0}, {13, 64, 4, 32}, {9, 131, 6, 64}, {2, 100, 5, 32}, {40, 96, 8, 32}};

std::vector<Producer> producers(const Shape& s) {
  const GemmOptions options{.m = s.m,
                            .n = s.n,
                            .k = s.k,
                            .tile = {4, s.tile_cols > 0 ? s.tile_cols : s.n},
                            .bias = true,
                            .residual = true,
                            .activation = Activation::relu};
  GemmOptions plain{.m = s.m, .n = s.n, .k = s.k, .tile = {1, options.tile[1]}, .addend = true, .residual = true};
  return {gemm(options), gemv(plain), copy({.rows = s.m, .cols = s.n, .tile = options.tile})};
}

std::vector<Case> narrow_cases(int num_ranks) {
  std::vector<Case> cases;
  const Mesh mesh({{"tp", num_ranks}});
  const auto add = [&](const Producer& p, Space space, Route route, const char* wire) {
    space.options.route = route;
    cases.push_back(
        {fmt::format("{} {} {} {}x{} {}", to_string(p.kind), to_string(space.kind), to_string(route), p.m, p.n, wire),
         p, space});
  };
  for (const Shape& shape : kShapes)
    for (const Producer& p : producers(shape)) {
      const SpaceOptions int8{.wire = Dtype::int8}, sums{.wire_sums = Dtype::int8},
          half{.wire = Dtype::bf16, .wire_sums = Dtype::bf16}, mixed{.wire = Dtype::bf16, .wire_sums = Dtype::int8};
      for (const Route route : {Route::ring, Route::two_shot, Route::one_shot})
        add(p, all_reduce(mesh, "tp", int8), route, "int8");
      for (const Route route : {Route::ring, Route::direct}) add(p, reduce_scatter(mesh, "tp", int8), route, "int8");
      add(p, all_reduce(mesh, "tp", sums), Route::two_shot, "int8 sums");
      add(p, all_reduce(mesh, "tp", half), Route::two_shot, "bf16 both");
      add(p, all_reduce(mesh, "tp", mixed), Route::ring, "bf16 and int8");
      if (num_ranks == 4 || num_ranks == 6) {
        add(p, all_reduce(mesh, "tp", int8), Route::two_level, "int8");
        add(p, all_reduce(mesh, "tp", half), Route::two_level, "bf16 both");
        add(p, reduce_scatter(mesh, "tp", int8), Route::two_level, "int8");
      }
    }
  return cases;
}

using Outputs = std::vector<std::vector<float>>;  // of every rank

Outputs run(const Case& c, const WorldOptions& options) {
  Outputs out(num(c.space.num_ranks()));
  World::local(
      c.space.num_ranks(),
      [&](World& world) {
        Op op = compile(world, c);
        const Data data = whole_numbers(c.producer, world.rank());
        for (int run = 0; run < 2; ++run) op.run(data.inputs(c.producer));
        const auto values = op.output().values();
        out[world.rank()].assign(values.begin(), values.end());
        EXPECT_EQ(op.sent().bytes, 2 * traffic(op.plan()).ranks[world.rank()].bytes_to_peers) << c.name;
      },
      options);
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class NarrowWire : public ::testing::TestWithParam<int> {};

TEST_P(NarrowWire, GivesTheReferencesBitsOnEveryRank) {
  const int num_ranks = GetParam();
  for (const Case& c : narrow_cases(num_ranks)) {
    const Plan plan = plan_of(c);
    const Verdict verdict = verify(plan);
    ASSERT_TRUE(verdict.ok()) << c.name << ": " << verdict.problems.front();
    EXPECT_EQ(to_json(parse_plan(to_json(plan), "saved")), to_json(plan));
    std::vector<Data> data;
    for (int r = 0; r < num_ranks; ++r) data.push_back(whole_numbers(c.producer, r));
    const Outputs expected = reference(plan, data), got = run(c, {});
    for (std::size_t r = 0; r < got.size(); ++r) {
      EXPECT_TRUE(same_bits(got[r], expected[r])) << c.name << " on rank " << r;
      EXPECT_TRUE(c.space.kind != SpaceKind::all_reduce || same_bits(got[r], got[0])) << c.name << " on rank " << r;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, NarrowWire, ::testing::Values(2, 3, 4, 6));

// Every third case: over a paced link, with two threads, and as messages.
TEST(NarrowWireOver, OtherTransportsHasTheSameBits) {
  const auto cases = narrow_cases(4);
  WorldOptions paced;
  paced.link = Link{.bytes_per_s = 5e9, .latency_s = 2e-6};
  paced.threads = 2;
  for (std::size_t i = 0; i < cases.size(); i += 3) {
    const Case& c = cases[i];
    const Outputs expected = run(c, {});
    const auto expect = [&](const WorldOptions& options) {
      const Outputs got = run(c, options);
      for (std::size_t r = 0; r < got.size(); ++r) EXPECT_TRUE(same_bits(got[r], expected[r])) << c.name;
    };
    expect(paced);
    for (const WireKind wire : {WireKind::tls, WireKind::ucx}) {
      WorldOptions wired;
      wired.wire = wire;
      if (available(wire)) expect(wired);
    }
  }
}

// Largest magnitude of the block that an element is in.
float block_most(const std::vector<float>& values, std::int64_t cols, std::int64_t at) {
  const std::int64_t row = at / cols * cols, first = at % cols / kInt8Block * kInt8Block;
  float most = 0;
  for (std::int64_t j = first; j < std::min(first + kInt8Block, cols); ++j)
    most = std::max(most, std::abs(values[static_cast<std::size_t>(row + j)]));
  return most;
}

// A value is within 1/254 of its block's largest, and 1 in 128 of that for the scale that is rounded up. By two_shot
// and one_shot each contribution is rounded once, then the sum; by a ring of N ranks N - 1 partial sums and the sum.
TEST(Int8Wire, IsWithinItsBoundOfTheF32Sum) {
  constexpr double kStep = 1.0 / 254 * (1 + 1.0 / 128);
  const std::int64_t m = 16, n = 200;
  for (const int num_ranks : {2, 4, 8}) {
    const Mesh mesh({{"tp", num_ranks}});
    const Producer p = copy({.rows = m, .cols = n, .tile = {4, 96}});
    std::vector<Data> data;
    for (int r = 0; r < num_ranks; ++r) data.push_back(make_data(p, r, 11));
    for (const Route route : {Route::two_shot, Route::one_shot, Route::ring}) {
      const auto result = [&](Dtype wire) {
        const SpaceOptions options{.route = route, .wire = wire};
        return reference(build(p, all_reduce(mesh, "tp", options), default_cluster(num_ranks)), data)[0];
      };
      const std::vector<float> exact = result(Dtype::f32), got = result(Dtype::int8);
      double worst = 0;
      for (std::int64_t i = 0; i < m * n; ++i) {
        const auto at = num(i);
        double bound = 0;
        for (int r = 0; r < num_ranks; ++r) bound += kStep * block_most(data[r].x, n, i);
        if (route == Route::ring) bound *= num_ranks / 2.0;  // partial sums of 1, 2, ..., N - 1 contributions
        bound += kStep * (block_most(exact, n, i) + bound);
        EXPECT_LE(std::abs(got[at] - exact[at]), bound) << to_string(route) << " " << i;
        worst = std::max(worst, std::abs(static_cast<double>(got[at]) - exact[at]) / block_most(exact, n, i));
      }
      EXPECT_GT(worst, 1e-4) << "nothing was rounded";
      RecordProperty(fmt::format("{}_{}", to_string(route), num_ranks), fmt::format("{:.4f}", worst));
    }
  }
}

TEST(Int8Wire, SendsSeventeenSixteenthsOfAByteAValue) {
  const Mesh mesh({{"tp", 4}});
  const auto bytes = [&](const SpaceOptions& options) {
    const Producer p = gemm({.m = 256, .n = 512, .k = 8, .tile = {32, 64}});
    return traffic(build(p, all_reduce(mesh, "tp", options), default_cluster(4))).total.bytes_to_peers;
  };
  const std::int64_t values = 2 * 3 * 256 * 512;  // both halves, to three peers
  EXPECT_EQ(bytes({.route = Route::two_shot}), values * 4);
  EXPECT_EQ(bytes({.route = Route::two_shot, .wire = Dtype::int8}), values * 17 / 16);
  EXPECT_EQ(bytes({.route = Route::ring, .wire = Dtype::int8}), values * 17 / 16);
  EXPECT_EQ(bytes({.route = Route::two_shot, .wire = Dtype::bf16}), values * 3);  // sums go as f32
  EXPECT_EQ(bytes({.route = Route::two_shot, .wire = Dtype::bf16, .wire_sums = Dtype::bf16}), values * 2);
}

// One bad value spoils its block, on every rank, and nothing else.
TEST(Int8Wire, WhatIsNotFiniteReachesEveryRank) {
  for (const Route route : {Route::two_shot, Route::one_shot, Route::ring})
    World::local(3, [&](World& world) {
      const Producer p = copy({.rows = 6, .cols = 96, .tile = {2, 32}});
      Op op = world.compile(p, all_reduce(world.mesh({{"tp", 3}}), "tp", {.route = route, .wire = Dtype::int8}));
      std::vector<float> x(6 * 96, 1.0f);
      if (world.rank() == 1) x[96 + 40] = INFINITY;
      op.run(x.data());
      const Matrix y = op.output();
      for (std::int64_t i = 0; i < 6 * 96; ++i) {
        const bool spoilt = i / 32 == (96 + 40) / 32;
        ASSERT_EQ(std::isnan(y.data[i]), spoilt) << i;
        ASSERT_TRUE(spoilt || std::abs(y.data[i] - 3) <= 0.05) << i;
      }
    });
}

TEST(Int8Wire, RefusesTilesThatCutBlocks) {
  const Mesh mesh({{"tp", 2}});
  const Cluster cluster = default_cluster(2);
  const Space space = all_reduce(mesh, "tp", {.route = Route::two_shot, .wire = Dtype::int8});
  EXPECT_THROW(build(gemm({.m = 8, .n = 80, .k = 2, .tile = {4, 40}}), space, cluster), Error);
  EXPECT_THROW(build(gemm({.m = 8, .n = 80, .k = 2}), all_gather(mesh, "tp", {.wire = Dtype::int8}), cluster), Error);
  Plan plan = build(gemm({.m = 8, .n = 128, .k = 2, .tile = {4, 64}}), space, cluster);
  ASSERT_TRUE(verify(plan).ok());
  for (Buffer& buffer : plan.buffers)
    if (buffer.dtype == Dtype::int8) buffer.packing = {};
  const Verdict verdict = verify(plan);
  ASSERT_FALSE(verdict.ok());
  EXPECT_NE(verdict.problems.front().find("is int8 but not"), std::string::npos) << verdict.problems.front();
}

}  // namespace
}  // namespace weft::testing
