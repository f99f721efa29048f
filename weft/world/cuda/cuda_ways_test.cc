#include "weft/world/cuda/cuda_ways.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "weft/collective/build.h"
#include "weft/exec/cuda/lane_table.h"
#include "weft/plan/verify/verify.h"
#include "weft/world/cuda/cuda_form.h"

namespace weft {
namespace {

const Mesh& of_four() {
  static const Mesh mesh({{"tp", 4}});
  return mesh;
}

std::vector<std::string> names_of(const std::vector<CudaWay>& ways) {
  std::vector<std::string> out;
  for (const CudaWay& way : ways) out.push_back(to_string(way));
  return out;
}

using Names = std::vector<std::string>;

TEST(CudaWays, AreTheOpenRoutesInTheOrdersThatSuitThem) {
  const CudaForm form = cuda_form(gemm({.m = 512, .n = 256, .k = 64}), reduce_scatter(of_four(), "tp"));
  EXPECT_EQ(names_of(cuda_ways(form.producer, form.space)),
            (Names{"ring", "direct", "direct, sent_cols 2", "direct, sent_cols 8"}));
  EXPECT_EQ(names_of(cuda_ways(form.producer, by_route(form.space, Route::ring))), Names{"ring"});
  EXPECT_EQ(names_of(cuda_ways(cuda_form(copy({.rows = 512, .cols = 256}), form.space).producer, form.space)),
            (Names{"ring", "direct"}));
  EXPECT_EQ(names_of(cuda_gather_ways(all_gather(of_four(), "tp"))),
            (Names{"ring", "direct, gathered_rows 1, part_cols 64", "direct, part_cols 64", "direct",
                   "direct, gathered_rows 4", "staged"}));
  EXPECT_EQ(cuda_ways(form.producer, keep()).size(), 1u);
  EXPECT_EQ(names_of(cuda_ways(form.producer, all_to_all(of_four(), "tp"))), Names{"direct"});
  const Mesh alone({{"tp", 1}});
  for (const Space& space : {reduce_scatter(alone, "tp"), all_reduce(alone, "tp"), all_to_all(alone, "tp")})
    EXPECT_EQ(cuda_ways(form.producer, space).size(), 1u);
  EXPECT_EQ(cuda_gather_ways(all_gather(alone, "tp")).size(), 1u);
}

TEST(CudaWays, OneShotIsForWholeTilesAndFewBytes) {
  const auto has = [](std::int64_t m, std::int64_t n) {
    const CudaForm form = cuda_form(gemm({.m = m, .n = n, .k = 64}), all_reduce(of_four(), "tp"));
    const Names names = names_of(cuda_ways(form.producer, form.space));
    return std::find(names.begin(), names.end(), "one_shot") != names.end();
  };
  EXPECT_TRUE(has(512, 256));
  EXPECT_FALSE(has(128, 256));
  EXPECT_FALSE(has(8192, 8192));
}

TEST(CudaWays, AllCanBeBuiltProvedAndExpanded) {
  for (const Space& space : {reduce_scatter(of_four(), "tp"), all_reduce(of_four(), "tp"), all_to_all(of_four(), "tp"),
                             broadcast(of_four(), "tp"), all_gather(of_four(), "tp")})
    for (const Dtype sums : {Dtype::bf16, Dtype::f32}) {
      const CudaForm form = cuda_form(gemm({.m = 1024, .n = 264, .k = 64}), space, sums);
      for (const CudaWay& way : cuda_ways(form.producer, form.space)) {
        const Plan plan = build(form.producer, by_route(form.space, way.route));
        EXPECT_TRUE(verify(plan).ok()) << plan.name;
        EXPECT_NO_THROW(device_plan(plan, Expander(plan), way.order)) << plan.name << " " << to_string(way);
      }
    }
}

}  // namespace
}  // namespace weft
