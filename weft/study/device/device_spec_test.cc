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

OpSpec gemv_ar(int ranks, std::int64_t rows) {
  OpSpec spec;
  spec.name = "gemv-ar";
  spec.ranks = ranks;
  spec.producer = gemv({.m = rows, .n = 256, .k = 64});
  spec.space = all_reduce(Mesh({{"tp", ranks}}), "tp");
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
            "n is 260 and k is 64; a GPU reads 16 bytes at a time: give n in multiples of 8, k in multiples of 8");
  spec = gemm_rs(2);
  spec.producer.kind = ProducerKind::window;
  EXPECT_EQ(refusal([&] { device_spec(spec); }),
            "a window has no GPU version; use a gemm, a gemv, embedding bags or a collective alone");
  spec.name = "embedding-rs";
  spec.producer = embedding_bag({.tables = 2, .rows = 10, .dim = 8, .batch = 64});
  EXPECT_EQ(refusal([&] { device_spec(spec); }),
            "embedding bags with reduce_scatter have no GPU version; they are kept there, or go by all_to_all, direct "
            "and side by side");
  spec = gemv_ar(4, 4);
  spec.space = reduce_scatter(Mesh({{"tp", 4}}), "tp");
  EXPECT_EQ(refusal([&] { device_spec(spec); }),
            "a gemv with reduce_scatter by auto has no GPU version; it is kept there, or all_reduced by one_shot");
  spec = gemv_ar(4, 17);
  EXPECT_EQ(refusal([&] { device_spec(spec); }), "m is 17; a gemv on a GPU has at most 16 rows: use a gemm");
  spec = gemv_ar(4, 1);
  spec.producer.k = 100;
  EXPECT_EQ(refusal([&] { device_spec(spec); }), "n is 256 and k is 100; a gemv on a GPU takes multiples of 16 and 32");
}

TEST(DeviceSpec, AGemvHasTilesOfAllItsRowsAndGoesByOneShot) {
  const OpSpec spec = device_spec(gemv_ar(4, 4));
  EXPECT_TRUE(is_device_gemv(spec));
  EXPECT_FALSE(is_device_gemv(device_spec(gemm_rs(4))));
  EXPECT_EQ(spec.producer.layout(), WeightLayout::nk);
  EXPECT_EQ(spec.producer.tile, (std::array<std::int64_t, 2>{4, 16}));
  EXPECT_EQ(spec.space.options.route, Route::one_shot);
  EXPECT_EQ(spec.space.options.wire, Dtype::bf16);
}

TEST(DeviceStudy, SaysInALineWhyThereIsNoDevice) {
  if (!device_name().empty()) GTEST_SKIP() << "there is a GPU here";
  EXPECT_NE(why_no_device(), "");
  EXPECT_EQ(refusal([&] { measure_on_device(device_spec(gemm_rs(2)), {}); }),
            "--device cuda: " + why_no_device() + "; leave it out to measure on CPUs");
}

}  // namespace
}  // namespace weft
