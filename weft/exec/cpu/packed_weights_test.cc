#include "weft/exec/cpu/packed_weights.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "weft/base/index.h"

namespace weft {
namespace {

constexpr std::int64_t kCols = 200, kDepth = 33;

GemmKernel kernel() { return GemmKernel({.tile_rows = 8, .tile_cols = 64, .k = kDepth, .lda = kDepth, .ldb = kCols}); }

std::vector<float> weights(float first) {
  std::vector<float> w(kCols * kDepth);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = first + static_cast<float>(i);
  return w;
}

TEST(PackedWeights, EveryRunPacksAgainAndThreadsSeeWholePanels) {
  const GemmKernel gemm = kernel();
  PackedWeights packed(gemm, {{0, 64, 2}, {64, 128, 2}, {128, 192, 2}}, 1 << 30);
  std::atomic<int> wrong = 0, served = 0, fresh = 0;
  for (std::uint32_t run = 0; run < 200; ++run) {
    const std::vector<float> w = weights(static_cast<float>(run));
    packed.begin(run);
    const auto look = [&] {
      for (std::int64_t lo = 0; lo < 192; lo += 64) {
        const auto [panel, is_fresh] = packed.get(lo, lo + 64, w.data() + lo);
        if (panel == nullptr) continue;  // the other thread is packing it
        ++served;
        fresh += is_fresh;
        std::vector<float> expected(num(gemm.packed_floats(64)));
        gemm.pack(64, w.data() + lo, expected.data());
        for (std::size_t i = 0; i < expected.size(); ++i) wrong += panel[i] != expected[i];
      }
    };
    std::thread other(look);
    look();
    other.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(served, 200 * 3);  // each panel by at least the thread that packed it
  EXPECT_EQ(fresh, 200 * 3);   // and packed once in every run
}

TEST(PackedWeights, LeavesOutWhatIsNeededOnceOverlapsOrIsTooMuch) {
  const GemmKernel gemm = kernel();
  const std::vector<float> w = weights(0);
  PackedWeights packed(gemm, {{0, 64, 2}, {32, 96, 2}, {96, 160, 1}}, 1 << 30);
  EXPECT_TRUE(packed.get(0, 64, w.data()).fresh);
  EXPECT_NE(packed.get(0, 64, w.data()).data, nullptr);
  EXPECT_FALSE(packed.get(0, 64, w.data()).fresh) << "packed already";
  EXPECT_EQ(packed.get(0, 32, w.data()).data, nullptr);  // another width
  EXPECT_EQ(packed.get(32, 96, w.data() + 32).data, nullptr);
  EXPECT_EQ(packed.get(96, 160, w.data() + 96).data, nullptr);
  PackedWeights small(gemm, {{0, 64, 2}, {64, 128, 2}}, gemm.packed_floats(64) * 4 + 100);
  EXPECT_NE(small.get(0, 64, w.data()).data, nullptr);
  EXPECT_EQ(small.get(64, 128, w.data() + 64).data, nullptr);
}

}  // namespace
}  // namespace weft
