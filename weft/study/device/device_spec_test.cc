#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/study/device/device_study.h"

namespace weft {
namespace {

OpSpec gemm_rs(int ranks) {
  OpSpec spec;
  spec.name = "gemm-rs";
  spec.ranks = ranks;
  spec.producer = gemm({.m = 512, .n = 256, .k = 64});
  spec.space = reduce_scatter(Mesh({{"tp", ranks}}), "tp");
  return spec;
}

TEST(DeviceSpec, IsInBf16WithTilesOfAGpu) {
  const OpSpec spec = device_spec(gemm_rs(4));
  EXPECT_EQ(spec.producer.x(), Dtype::bf16);
  EXPECT_EQ(spec.producer.y(), Dtype::bf16);
  EXPECT_EQ(spec.producer.weight, Dtype::bf16);
  EXPECT_EQ(spec.producer.layout(), WeightLayout::nk);
  EXPECT_EQ(spec.producer.tile, (std::array<std::int64_t, 2>{128, 256}));
  EXPECT_EQ(spec.space.options.wire, Dtype::bf16);
  const OpSpec moved = device_spec(collective_alone(spec));
  EXPECT_EQ(moved.producer.x(), Dtype::bf16);
  EXPECT_EQ(moved.producer.weights, WeightLayout::kn);  // a copy has no w
}

TEST(DeviceSpec, RefusesWhatAGpuHasNotAndSaysWhatToDo) {
  OpSpec spec = gemm_rs(9);
  EXPECT_EQ(refusal([&] { device_spec(spec); }), "--ranks is 9; at most 8 share one GPU");
  spec = gemm_rs(2);
  spec.producer.n = 260;
  EXPECT_EQ(refusal([&] { device_spec(spec); }),
            "n is 260 and k is 64; a GPU reads 16 bytes at a time: give multiples of 8");
  spec = gemm_rs(2);
  spec.producer.kind = ProducerKind::gemv;
  EXPECT_EQ(refusal([&] { device_spec(spec); }),
            "gemm-rs has no GPU version yet; use a gemm or a collective alone, or leave out --device");
}

TEST(DeviceStudy, SaysInALineWhyThereIsNoDevice) {
  if (!device_name().empty()) GTEST_SKIP() << "there is a GPU here";
  EXPECT_NE(why_no_device(), "");
  EXPECT_EQ(refusal([&] { measure_on_device(device_spec(gemm_rs(2)), {}); }),
            "--device cuda: " + why_no_device() + "; leave it out to measure on CPUs");
}

}  // namespace
}  // namespace weft
