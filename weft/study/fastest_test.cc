// The opponents that contests and ledgers share: they compute the same as the fused op, and what is predicted of them
// is what their plans say.
#include "weft/study/fastest.h"

#include <gtest/gtest.h>

#include "weft/collective/build.h"
#include "weft/plan/price/estimate.h"
#include "weft/study/input/check.h"
#include "weft/study/input/inputs.h"
#include "weft/study/paired.h"
#include "weft/world/world.h"

namespace weft {
namespace {

OpSpec spec_of(World& world, const Producer& producer, SpaceKind kind) {
  OpSpec spec;
  spec.name = "test";
  spec.producer = producer;
  spec.space.kind = kind;
  spec.space.mesh = world.mesh({{"tp", world.size()}});
  spec.space.axis = "tp";
  spec.ranks = world.size();
  return spec;
}

TEST(FastestCollective, IsARouteOfTheSpaceAndMovesWhatItShould) {
  World::local(3, [](World& world) {
    CommonClock clock(world);
    for (const SpaceKind kind : {SpaceKind::reduce_scatter, SpaceKind::all_reduce, SpaceKind::all_gather}) {
      const OpSpec spec = spec_of(world, gemm({.m = 12, .n = 8, .k = 4}), kind);
      const std::vector<float> x(12 * 8, static_cast<float>(world.rank() + 1));
      const auto [op, us] = fastest_collective(world, clock, spec, x.data());
      ASSERT_NE(op, nullptr);
      EXPECT_GT(us, 0);
      const auto known = routes(spec.space, world.cluster(3));
      ASSERT_TRUE(op->plan().route.has_value());
      EXPECT_NE(std::find(known.begin(), known.end(), *op->plan().route), known.end());
      op->run(x.data());
      const Matrix y = op->output();
      EXPECT_EQ(y.rows, kind == SpaceKind::all_gather ? 36 : kind == SpaceKind::all_reduce ? 12 : 4);
      EXPECT_EQ(y.data[0], kind == SpaceKind::all_gather ? 1.0f : 6.0f) << "ranks give 1, 2 and 3";
    }
  });
}

TEST(FastestPanels, GiveTheResultOfTheOp) {
  for (const int ranks : {2, 3})
    World::local(ranks, [](World& world) {
      CommonClock clock(world);
      for (const SpaceKind kind :
           {SpaceKind::reduce_scatter, SpaceKind::all_reduce, SpaceKind::all_to_all, SpaceKind::all_gather}) {
        const OpSpec spec = spec_of(world, gemm({.m = 48, .n = 16, .k = 8}), kind);
        RankInputs inputs(spec, world.rank());
        inputs.refresh(1);
        const auto next = [&] { return inputs.next(); };
        const auto panels = fastest_panels(world, clock, spec, own_maker(world), next);
        ASSERT_NE(panels, nullptr);
        EXPECT_TRUE(panels->count() == 2 || panels->count() == 4 || panels->count() == 8);
        panels->refresh(inputs.next());
        const Reference reference(spec);
        const double error = reference.error_of(panels->run(inputs.next()), Expect::op, 1, world.rank(), 1'000'000);
        EXPECT_LE(error, reference.tolerance()) << to_string(kind);
        EXPECT_GT(panels->predicted_seconds(world.cluster(world.size())), 0);
      }
    });
}

TEST(FastestPanels, AreNoneWhereTheOpHasTooFewRows) {
  World::local(2, [](World& world) {
    CommonClock clock(world);
    const OpSpec spec = spec_of(world, gemm({.m = 2, .n = 16, .k = 8}), SpaceKind::reduce_scatter);
    EXPECT_EQ(fastest_panels(world, clock, spec, own_maker(world), [] { return Inputs{}; }), nullptr);
  });
}

// Whichever is the fastest here, it is the same product; what no library can make is left to Weft.
TEST(FasterProduct, IsTheSameProductOrNone) {
  World::local(1, [](World& world) {
    CommonClock clock(world);
    const OpSpec spec = spec_of(world, gemm({.m = 24, .n = 40, .k = 16}), SpaceKind::keep);
    RankInputs inputs(spec, 0);
    inputs.refresh(1);
    const Inputs in = inputs.next();
    const Make own = own_maker(world)(spec.producer);
    const FasterProduct found = faster_product(clock, spec.producer, in, [&] { own(in); });
    EXPECT_EQ(found.name == "weft", !found.make) << found.name;
    const Matrix y = own(in);
    if (found.make) {
      const Matrix other = found.make(in);
      ASSERT_EQ(other.rows * other.cols, 24 * 40);
      for (std::int64_t i = 0; i < 24 * 40; ++i) ASSERT_NEAR(other.data[i], y.data[i], 1e-5);
    }
    const Producer finished = gemm({.m = 24, .n = 40, .k = 16, .activation = Activation::gelu});
    int turns = 0;
    EXPECT_EQ(faster_product(clock, finished, in, [&] { ++turns; }).name, "weft");
    EXPECT_EQ(turns, 0) << "nothing to try";
  });
}

TEST(PredictedSeconds, AreThoseOfThePlans) {
  const Cluster cluster = default_cluster(2);
  const Mesh mesh({{"tp", 2}});
  const Producer producer = gemm({.m = 256, .n = 256, .k = 64});
  const Plan fused = build(producer, all_reduce(mesh, "tp"), cluster);
  const Plan collective = build(copy({.rows = 256, .cols = 256}), all_reduce(mesh, "tp"), cluster);
  const StyledOp op{.compute_s = 0.25, .collective = &collective, .fused = &fused};
  const double sent = estimate(collective, cluster).seconds;
  EXPECT_EQ(predicted_seconds(Style::compute, op, cluster), 0.25);
  EXPECT_EQ(predicted_seconds(Style::fused, op, cluster), estimate(fused, cluster).seconds);
  EXPECT_EQ(predicted_seconds(Style::sequential, op, cluster), 0.25 + sent);
  EXPECT_EQ(predicted_seconds(Style::panels, op, cluster), 0.25 + sent) << "without panels as sequential";
}

TEST(MeasurePaired, CountsItsRunsAndSumsUp) {
  World::local(2, [](World& world) {
    const OpSpec spec = spec_of(world, gemm({.m = 8, .n = 16, .k = 8}), SpaceKind::all_reduce);
    const Paired paired = measure_paired(world, spec, {.runs = 45, .block = 10});
    EXPECT_EQ(paired.runs, 40) << "whole blocks";
    EXPECT_GT(paired.fused_us, 0);
    EXPECT_GT(paired.compute_us, 0);
    EXPECT_GE(paired.aa_band, 0);
    EXPECT_LT(paired.max_rel_err, 1e-5);
    EXPECT_FALSE(paired.ratio.has_value()) << "no mpirun, no MPI";
    EXPECT_EQ(measure_paired(world, spec, {.runs = 3, .block = 10}).runs, 3);
  });
}

}  // namespace
}  // namespace weft
