#include "weft/exec/ref/ref.h"

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/collective/build.h"

namespace weft {
namespace {

constexpr std::int64_t kRows = 12, kCols = 10, kDepth = 7;

// Small whole numbers: the same in f32 and bf16.
float value_at(std::int64_t i, int rank) { return static_cast<float>((i * 7 + rank * 3) % 41 - 20); }

struct Given {
  std::vector<float> x, w;             // (m, k), (k, n)
  std::vector<bf16> narrow_x, turned;  // the same x, and w as (n, k)
};

Given given_to(int rank) {
  Given out;
  for (std::int64_t i = 0; i < kRows * kDepth; ++i) out.x.push_back(value_at(i, rank));
  for (std::int64_t i = 0; i < kDepth * kCols; ++i) out.w.push_back(value_at(i + 5, rank));
  for (const float value : out.x) out.narrow_x.push_back(to_bf16(value));
  for (std::int64_t i = 0; i < kDepth * kCols; ++i)
    out.turned.push_back(to_bf16(out.w[at(i % kDepth * kCols + i / kDepth)]));
  return out;
}

std::vector<std::vector<float>> run(const GemmOptions& options, bool narrow) {
  const Plan plan = build(gemm(options), reduce_scatter(Mesh({{"tp", 2}}), "tp", {.route = Route::ring}));
  const std::vector<Given> given = {given_to(0), given_to(1)};
  std::vector<Bindings> bindings(2);
  for (std::size_t r = 0; r < 2; ++r) {
    bindings[r].producers.resize(1);
    bindings[r].buffers.resize(plan.buffers.size());
    Inputs& in = bindings[r].producers[0];
    if (narrow)
      in.narrow_x = given[r].narrow_x.data(), in.w = given[r].turned.data();
    else
      in.x = given[r].x.data(), in.w = given[r].w.data();
  }
  RefExecutor ref(plan);
  ref.run(bindings);
  return {ref.output(0), ref.output(1)};
}

TEST(RefExecutor, NarrowOperandsAndTurnedWeightsGiveTheSameProduct) {
  const GemmOptions wide{.m = kRows, .n = kCols, .k = kDepth, .tile = {4, 8}};
  GemmOptions narrow = wide;
  narrow.weight = narrow.x = Dtype::bf16;
  narrow.layout = WeightLayout::nk;
  EXPECT_EQ(run(wide, false), run(narrow, true));
  narrow.y = Dtype::bf16;
  auto rounded = run(wide, false);
  for (auto& rank : rounded)
    for (float& value : rank) value = to_float(to_bf16(value));
  EXPECT_EQ(run(narrow, true), rounded);
  EXPECT_NE(rounded, run(wide, false));  // some sums have more than 8 bits
}

}  // namespace
}  // namespace weft
