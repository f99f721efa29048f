#include "weft/world/cuda/cuda_form.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/collective/build.h"
#include "weft/exec/cuda/device_layout.h"
#include "weft/exec/cuda/small/gemv_table.h"

namespace weft {
namespace {

const Mesh& four() {
  static const Mesh mesh({{"tp", 4}});
  return mesh;
}

TEST(CudaForm, GemmsKeepTheirLayoutAndGetTilesOfAGpu) {
  for (const WeightLayout layout : {WeightLayout::kn, WeightLayout::nk}) {
    const CudaForm form = cuda_form(gemm({.m = 512, .n = 256, .k = 64, .layout = layout}), all_reduce(four(), "tp"));
    EXPECT_EQ(form.producer.layout(), layout);
    EXPECT_EQ(form.producer.y(), Dtype::bf16);
    EXPECT_EQ(form.space.options.wire, Dtype::bf16);
    EXPECT_NO_THROW(check_device_plan(build(form.producer, with_cuda_route(form.space, form.producer))));
  }
}

TEST(CudaForm, SumsInF32HaveNarrowerTilesAndNoKernelOfWords) {
  const Producer product = gemm({.m = 512, .n = 256, .k = 64, .layout = WeightLayout::nk});
  const CudaForm form = cuda_form(product, with_cuda_route(all_reduce(four(), "tp"), product), Dtype::f32);
  EXPECT_EQ(form.producer.x(), Dtype::bf16);
  EXPECT_EQ(form.producer.y(), Dtype::f32);
  EXPECT_EQ(form.space.options.wire, Dtype::f32);
  EXPECT_EQ(form.producer.tile[1], 128);
  EXPECT_EQ(cuda_form(copy({.rows = 512, .cols = 252}), reduce_scatter(four(), "tp"), Dtype::f32).producer.x(),
            Dtype::f32);
  EXPECT_FALSE(few_rows_form(gemv({.m = 1, .n = 64, .k = 96}), all_reduce(four(), "tp"), Dtype::f32));
  const CudaForm one = cuda_form(gemv({.m = 1, .n = 64, .k = 96}), all_reduce(four(), "tp"), Dtype::f32);
  EXPECT_NO_THROW(check_device_plan(build(one.producer, with_cuda_route(one.space, one.producer))));
}

TEST(CudaForm, EveryRouteThatIsChosenIsOneThatAGpuRuns) {
  for (const Producer& p : {gemm({.m = 512, .n = 256, .k = 64, .layout = WeightLayout::nk}),
                            copy({.rows = 512, .cols = 256, .dtype = Dtype::bf16})})
    for (const Space& space : {reduce_scatter(four(), "tp"), all_reduce(four(), "tp"), all_gather(four(), "tp"),
                               all_to_all(four(), "tp"), broadcast(four(), "tp")})
      for (const Dtype sums : {Dtype::bf16, Dtype::f32}) {
        const CudaForm form = cuda_form(p, with_cuda_route(space, p), sums);
        EXPECT_NO_THROW(check_device_plan(build(form.producer, form.space))) << to_string(space.kind);
        EXPECT_FALSE(is_cuda_gemv(build(form.producer, form.space)));
      }
}

TEST(CudaForm, FewRowsGoToTheKernelOfWordsWhereItCanMakeThem) {
  const auto few = [](const Producer& p, const Space& space) { return few_rows_form(p, space).has_value(); };
  const auto product = [](std::int64_t m, std::int64_t n, std::int64_t k, WeightLayout layout = WeightLayout::nk) {
    return gemm({.m = m, .n = n, .k = k, .layout = layout});
  };
  const Space sum = all_reduce(four(), "tp");
  EXPECT_TRUE(few(product(16, 64, 96), sum));
  EXPECT_TRUE(few(gemv({.m = 1, .n = 64, .k = 96}), sum));
  EXPECT_TRUE(few(product(1, 64, 96), keep()));
  EXPECT_TRUE(few(copy({.rows = 4, .cols = 64, .dtype = Dtype::bf16}), sum));
  EXPECT_FALSE(few(product(17, 64, 96), sum));
  EXPECT_FALSE(few(product(16, 72, 96), sum));
  EXPECT_FALSE(few(product(16, 64, 72), sum));
  EXPECT_FALSE(few(product(16, 64, 96, WeightLayout::kn), sum));
  EXPECT_FALSE(few(product(16, 64, 96), reduce_scatter(four(), "tp")));
  EXPECT_FALSE(few(product(16, 64, 96), all_reduce(four(), "tp", {.route = Route::ring})));
  EXPECT_FALSE(few(gemm({.m = 16, .n = 64, .k = 96, .bias = true, .layout = WeightLayout::nk}), sum));
  for (const Producer& p : {product(16, 64, 96), copy({.rows = 4, .cols = 64, .dtype = Dtype::bf16})}) {
    const CudaForm form = *few_rows_form(p, sum);
    const Plan plan = build(form.producer, form.space);
    EXPECT_TRUE(is_cuda_gemv(plan));
    EXPECT_NO_THROW(gemv_plan(plan, Expander(plan)));
  }
}

// Its tiles are as narrow as those of the other kernel.
TEST(CudaForm, ANarrowGemmIsNoGemv) {
  for (const Space& space : {reduce_scatter(four(), "tp"), all_reduce(four(), "tp")})
    for (const Producer& p : {gemm({.m = 16, .n = 16, .k = 32, .layout = WeightLayout::nk}),
                              copy({.rows = 16, .cols = 16, .dtype = Dtype::bf16})}) {
      const CudaForm form = cuda_form(p, with_cuda_route(space, p));
      EXPECT_FALSE(is_cuda_gemv(build(form.producer, form.space))) << to_string(space.kind);
    }
  const auto wide = gemm({.m = 8, .n = 16, .k = 64, .layout = WeightLayout::nk});
  EXPECT_FALSE(is_cuda_gemv(validated(cuda_form(wide, keep(), Dtype::f32).producer, 1)));
}

TEST(CudaForm, RefusesWhatAGpuCannotMakeAndSaysWhatToDo) {
  EXPECT_EQ(refusal([] { cuda_form(gemm({.m = 64, .n = 60, .k = 64}), keep()); }),
            "n is 60 and k is 64; a GPU reads 16 bytes at a time: give n in multiples of 8, k in multiples of 8");
  const auto wide = [](WeightLayout layout) {
    return cuda_form(gemm({.m = 64, .n = 132, .k = 64, .layout = layout}), keep(), Dtype::f32);
  };
  EXPECT_EQ(refusal([&] { wide(WeightLayout::kn); }),
            "n is 132 and k is 64; a GPU reads 16 bytes at a time: give n in multiples of 8, k in multiples of 8");
  EXPECT_NO_THROW(wide(WeightLayout::nk));
  EXPECT_EQ(refusal([] { cuda_form(gemm({.m = 64, .n = 64, .k = 64, .addend = true}), keep()); }),
            "an addend has no GPU version yet; leave it out, or run on the CPU");
}

}  // namespace
}  // namespace weft
