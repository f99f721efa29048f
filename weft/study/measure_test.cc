#include "weft/study/measure.h"

#include <gtest/gtest.h>

#include "weft/study/contest.h"
#include "weft/world/world.h"

namespace weft {
namespace {

OpSpec small(int ranks) {
  OpSpec spec{.name = "gemm-rs", .producer = gemm({.m = 32, .n = 24, .k = 16}), .ranks = ranks};
  spec.space = reduce_scatter(Mesh({{"tp", ranks}}), "tp");
  return spec;
}

TEST(Measure, EveryStyleIsTimedCheckedAndPredicted) {
  World::local(2, [](World& world) {
    int shown = 0;
    const OpSpec spec = small(2);
    const Measurement m = measure(world, spec, {.rounds = 3, .progress = [&](int, int) { ++shown; }});
    EXPECT_GE(m.rounds, 3);
    EXPECT_EQ(shown, m.rounds);
    for (const auto& us : {m.compute_us, m.comm_us, m.sequential_us, m.panels_us, m.predicted.compute_us,
                           m.predicted.comm_us, m.predicted.sequential_us, m.predicted.panels_us})
      EXPECT_GT(us.value_or(0), 0);
    EXPECT_GT(m.fused_us, 0);
    EXPECT_GT(m.bytes_sent, 0);
    EXPECT_LT(m.max_rel_err, 1e-5);
    EXPECT_DOUBLE_EQ(*m.speedup(), std::min(*m.sequential_us, *m.panels_us) / m.fused_us);
    EXPECT_GE(*m.ideal_us(), *m.compute_us);
    if (const Hidden hidden = m.hidden(); hidden.part) {
      EXPECT_LE(*hidden.part, kMostHidden);
    } else {
      EXPECT_NE(hidden.note, "");
    }
  });
}

TEST(Measure, TheFloorIsTheFastestComputeThereIs) {
  Measurement m;
  EXPECT_FALSE(m.floor_us());
  m.library_us = 5;  // of no account without compute: there is nothing to compare
  EXPECT_FALSE(m.floor_us());
  m.compute_us = 7;
  EXPECT_DOUBLE_EQ(*m.floor_us(), 5);
  m.library_us = 9;
  EXPECT_DOUBLE_EQ(*m.floor_us(), 7);
  m.onednn_us = 8, m.openblas_us = 6;
  EXPECT_DOUBLE_EQ(*m.floor_us(), 6);
}

TEST(Measure, OneRankHasNothingToHide) {
  World::local(1, [](World& world) {
    const OpSpec spec = small(1);
    const Measurement m = measure(world, spec, {.rounds = 2, .outside = false});
    EXPECT_TRUE(m.compute_us);
    EXPECT_FALSE(m.comm_us || m.sequential_us || m.panels_us || m.speedup());
    EXPECT_FALSE(m.hidden().part);
  });
}

TEST(Measure, RoutesAreTimedByNameWhereAskedFor) {
  World::local(2, [](World& world) {
    const OpSpec spec = small(2);
    const Measurement m = measure(world, spec, {.rounds = 2, .panels = false, .outside = false, .routes = true});
    EXPECT_FALSE(m.panels_us);
    EXPECT_TRUE(m.route_us.contains("ring"));
    EXPECT_TRUE(m.route_us.contains("direct"));
  });
}

TEST(Contest, AWrongResultIsSeenInTheErrorThatIsTold) {
  World::local(2, [](World& world) {
    CommonClock clock(world);
    const OpSpec spec = small(2);
    Contest contest(world, spec, clock, {.outside = false});
    contest.refresh(5);
    for (const Contestant& one : contest.contestants()) {
      one.run();
      if (!one.after) continue;
      EXPECT_LT(static_cast<double>(one.after(5)) * kErrorUnit, contest.tolerance()) << one.name;
      EXPECT_GT(static_cast<double>(one.after(6)) * kErrorUnit, contest.tolerance()) << one.name << " of another round";
    }
  });
}

}  // namespace
}  // namespace weft
