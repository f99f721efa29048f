#include "weft/study/device/device_prediction.h"

#include <cmath>

#include <gtest/gtest.h>

#include "weft/collective/build.h"
#include "weft/collective/draft.h"

namespace weft {
namespace {

struct Predicted4 {
  Plan fused, kept, collective;

  explicit Predicted4(Route route, SpaceKind kind = SpaceKind::reduce_scatter) {
    OpSpec spec;
    spec.name = kind == SpaceKind::all_reduce ? "gemm-ar" : "gemm-rs";
    spec.ranks = 4;
    spec.producer = gemm({.m = 2048, .n = 2048, .k = 1024});
    const Mesh mesh({{"tp", 4}});
    spec.space = kind == SpaceKind::all_reduce ? all_reduce(mesh, "tp") : reduce_scatter(mesh, "tp");
    spec = device_spec(spec);
    spec.space.options.route = route;
    fused = build(spec.producer, spec.space);
    kept = build_keep(validated(spec.producer, 4), 4);
    OpSpec alone = device_spec(collective_alone(spec));
    alone.space.options.route = route;
    collective = build(alone.producer, alone.space);
  }
  Measurement::Predicted at(const DeviceStudyOptions& options) const {
    return predict_on_device({&fused, &kept, &collective}, options);
  }
};

Pace gbytes(double per_s) {
  Pace pace;
  pace.bytes_per_s = per_s * 1e9, pace.latency_s = 1e-6;
  return pace;
}

TEST(DevicePrediction, ARankHasItsPartOfTheChip) {
  const sim::Chip whole = sim::load_chip("h200-like");
  const Predicted4 ring(Route::ring), direct(Route::direct);
  const sim::Chip chip = part_of_chip(whole, ring.fused, gbytes(10));
  EXPECT_EQ(chip.cus, 32);
  EXPECT_DOUBLE_EQ(chip.dram_bytes_per_s, whole.dram_bytes_per_s / 4);
  EXPECT_DOUBLE_EQ(chip.link_bytes_per_s, 10e9) << "a ring sends to one peer";
  EXPECT_DOUBLE_EQ(part_of_chip(whole, direct.fused, gbytes(10)).link_bytes_per_s, 30e9);
  Pace nic = gbytes(10);
  nic.fabric = Fabric::nic;
  EXPECT_DOUBLE_EQ(part_of_chip(whole, direct.fused, nic).link_bytes_per_s, 10e9);
  nic.ranks_per_host = 2;
  EXPECT_DOUBLE_EQ(part_of_chip(whole, direct.fused, nic).link_bytes_per_s, 5e9) << "two ranks have one";
  nic.fabric = Fabric::pairs;
  EXPECT_DOUBLE_EQ(part_of_chip(whole, direct.fused, nic).link_bytes_per_s, 5e9) << "and one other host";
  EXPECT_DOUBLE_EQ(part_of_chip(whole, ring.fused, {}).link_bytes_per_s, chip.dram_bytes_per_s);
}

// The arithmetic is the floor of the product, and the bytes by the rate that of the link.
TEST(DevicePrediction, StandsAboveItsFloorsAndBelowSequential) {
  const double flops = 2.0 * 2048 * 2048 * 1024, bytes = 2048.0 * 2048 * 2 * 3 / 4;
  const sim::Chip chip = sim::load_chip("h200-like");
  const double floor_us = flops / (32 * chip.clock_hz * chip.flops_per_cycle * chip.gemm_efficiency) * 1e6;
  for (const SpaceKind kind : {SpaceKind::reduce_scatter, SpaceKind::all_reduce})
    for (const double rate : {20.0, 200.0}) {
      const Predicted4 plans(Route::ring, kind);
      const Measurement::Predicted p = plans.at({.pace = gbytes(rate)});
      const double link_us = bytes / (rate * 1e3) * (kind == SpaceKind::all_reduce ? 2 : 1);
      ASSERT_TRUE(p.compute_us && p.comm_us && p.sequential_us);
      EXPECT_GE(*p.compute_us, floor_us * 0.999);
      EXPECT_LT(*p.compute_us, floor_us * 1.5);
      EXPECT_GE(*p.comm_us, link_us * 0.999);
      EXPECT_GE(p.fused_us, std::max(floor_us, link_us) * 0.999);
      EXPECT_LT(p.fused_us, *p.sequential_us);
    }
}

TEST(DevicePrediction, HasNoWordOnPcie) {
  const Measurement::Predicted p = Predicted4(Route::direct).at({.link = CudaLink::pcie});
  EXPECT_TRUE(std::isnan(p.fused_us));
  EXPECT_FALSE(p.compute_us);
  EXPECT_FALSE(p.sequential_us);
}

}  // namespace
}  // namespace weft
