// Tiles of every producer that multiplies, made in any order, from inputs that change between runs: the bits are those
// of the whole product made in one go.
#include "weft/exec/cpu/tile_maker.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/base/thread_pool.h"
#include "weft/collective/build.h"
#include "weft/kernel/quant/quant_rows.h"
#include "weft/kernel/random_test.h"

namespace weft {
namespace {

// One rank that keeps its output, and room for it.
struct Made {
  explicit Made(const Producer& wanted)
      : plan(build(wanted, keep())),
        program(Expander(plan).program(0)),
        producer(plan.producers[0]),
        maker(producer, 0, program),
        y(num(producer.m * producer.n)),
        scratch(maker.scratch_bytes() / sizeof(float) + 16) {}

  std::vector<Box> boxes() const {
    std::vector<Box> out;
    for (const Action& action : program.actions)
      for (std::int64_t lane = 0; lane < action.lanes && action.kind == ActionKind::step; ++lane)
        out.push_back(lane_box(action.box, action.tile, lane));
    return out;
  }
  void make(const Inputs& in, const Box& box, const float* addend = nullptr, float* twin = nullptr) {
    const std::int64_t at = box.lo[0] * producer.n + box.lo[1];
    GemmTarget target{y.data() + at, producer.n};
    if (addend != nullptr) target.addend = addend + at, target.addend_ld = producer.n;
    if (twin != nullptr) target.twin = twin + at, target.twin_ld = producer.n;
    const auto first = (reinterpret_cast<std::uintptr_t>(scratch.data()) + 63) / 64 * 64;  // as threads have it
    maker.make(in, box, nullptr, target, reinterpret_cast<void*>(first));
  }

  Plan plan;
  Program program;
  Producer producer;
  TileMaker maker;
  std::vector<float> y, scratch;
};

Inputs inputs_of(const std::vector<float>& x, const std::vector<char>& w) {
  Inputs in;
  in.x = x.data(), in.w = w.data();
  return in;
}

// The product as one tile.
std::vector<float> whole(const Producer& p, const float* x, const void* w) {
  const bool transposed = p.layout() == WeightLayout::nk;
  const GemmKernel kernel({.tile_rows = p.m,
                           .tile_cols = p.n,
                           .k = p.k,
                           .lda = p.k,
                           .ldb = transposed ? p.k : p.n,
                           .b_dtype = p.weight,
                           .b_transposed = transposed});
  std::vector<float> y(num(p.m * p.n)), scratch(kernel.scratch_bytes() / sizeof(float) + 16);
  kernel.run(p.m, p.n, x, w, {y.data(), p.n}, scratch.data());
  return y;
}

// Several tiles share columns (which are packed once), or each has its own; the last of both are narrower.
TEST(TileMaker, TilesInAnyOrderGiveTheBitsOfTheWholeProduct) {
  for (const Dtype weight : {Dtype::f32, Dtype::bf16})
    for (const WeightLayout layout : {WeightLayout::kn, WeightLayout::nk})
      for (const std::int64_t m : {150, 40}) {
        Made made(gemm({.m = m, .n = 150, .k = 37, .weight = weight, .layout = layout}));
        const std::vector<Box> boxes = made.boxes();
        ASSERT_EQ(boxes.size(), m == 150 ? 9u : 3u);
        for (std::uint64_t run = 0; run < 3; ++run) {
          const std::vector<float> x = random_floats(m * 37, 10 + static_cast<unsigned>(run));
          const std::vector<char> w = random_bytes(150 * 37, weight, 20 + static_cast<unsigned>(run));
          made.maker.begin(run, -1);
          std::fill(made.y.begin(), made.y.end(), -1.0f);
          for (std::size_t i = 0; i < boxes.size(); ++i)  // first to last, last to first, and every fourth
            made.make(inputs_of(x, w), boxes[run == 0 ? i : run == 1 ? boxes.size() - 1 - i : i * 4 % boxes.size()]);
          EXPECT_TRUE(same_bits(made.y, whole(made.producer, x.data(), w.data())))
              << to_string(weight) << " " << to_string(layout) << " run " << run;
        }
      }
}

TEST(TileMaker, AnAddendComesBeforeTheTileAndATwinGetsTheSame) {
  Made made(gemm({.m = 70, .n = 66, .k = 20}));
  const std::vector<float> x = random_floats(70 * 20, 1), addend = random_floats(70 * 66, 3);
  const std::vector<char> w = random_bytes(66 * 20, Dtype::f32, 2);
  std::vector<float> want = whole(made.producer, x.data(), w.data()), twin(want.size());
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = addend[i] + want[i];
  ASSERT_TRUE(made.maker.adds());
  made.maker.begin(0, -1);
  for (const Box& box : made.boxes()) made.make(inputs_of(x, w), box, addend.data(), twin.data());
  EXPECT_TRUE(same_bits(made.y, want));
  EXPECT_TRUE(same_bits(twin, want));
}

// Weights in blocks, whose columns may begin inside a block: few rows and many, with what is added and without.
TEST(TileMaker, TilesFromBlocksGiveTheBitsOfTheWholeProduct) {
  ThreadPool alone(1);
  for (const Dtype dtype : {Dtype::q8_0, Dtype::q4_k, Dtype::q6_k})
    for (const std::int64_t m : {1, 70}) {
      const std::int64_t n = 1000, k = 320, first = dtype == Dtype::q8_0 ? 0 : 96, ld = 512;
      Made made(gemv({.m = m, .n = n, .k = k, .weight = dtype}));
      const std::vector<float> x = random_floats(m * k, 1), rows = random_floats(n * ld, 2),
                               addend = random_floats(m * n, 3);
      std::vector<char> w(num(n * row_bytes(dtype, ld)));
      for (std::int64_t r = 0; r < n; ++r)
        quantise(dtype, ld, rows.data() + r * ld, reinterpret_cast<std::byte*>(w.data()) + r * row_bytes(dtype, ld));
      std::vector<float> want(num(m * n)), twin(want.size());
      quant_matmul(alone, m, {reinterpret_cast<const std::byte*>(w.data()), dtype, n, k, first, ld}, x.data(), k,
                   want.data(), n);
      Inputs in = inputs_of(x, w);
      in.w_first = first, in.w_ld = ld;
      made.maker.begin(0, -1);
      ASSERT_GT(made.boxes().size(), 1u);
      for (const Box& box : made.boxes()) made.make(in, box);
      EXPECT_TRUE(same_bits(made.y, want)) << to_string(dtype) << " " << m;
      for (const Box& box : made.boxes()) made.make(in, box, nullptr, twin.data());
      EXPECT_TRUE(same_bits(twin, want));
      for (std::size_t i = 0; i < want.size(); ++i) want[i] = addend[i] + want[i];
      for (const Box& box : made.boxes()) made.make(in, box, addend.data(), twin.data());
      EXPECT_TRUE(same_bits(made.y, want)) << to_string(dtype) << " " << m;
      EXPECT_TRUE(same_bits(twin, want));
    }
}

// Rows of bf16 are widened into memory of the thread's own, in front of what the kernel needs.
TEST(TileMaker, NarrowRowsGiveTheBitsOfTheSameRowsInFull) {
  Made made(gemm({.m = 70, .n = 40, .k = 24, .x = Dtype::bf16}));
  const std::vector<char> narrow = random_bytes(70 * 24, Dtype::bf16, 5), w = random_bytes(40 * 24, Dtype::f32, 6);
  const auto* rows = reinterpret_cast<const bf16*>(narrow.data());
  std::vector<float> x;
  for (std::int64_t i = 0; i < 70 * 24; ++i) x.push_back(to_float(rows[i]));
  Inputs in;
  in.narrow_x = rows, in.w = w.data();
  EXPECT_GE(made.maker.scratch_bytes(), num(64 * 24) * sizeof(float)) << "a tile's rows, widened";
  made.maker.begin(0, -1);
  for (const Box& box : made.boxes()) made.make(in, box);
  EXPECT_TRUE(same_bits(made.y, whole(made.producer, x.data(), w.data())));
}

// Few rows of a gemv read weights as they lie, more rows panels packed from them; the count of a run decides for all of
// its tiles.
TEST(TileMaker, AGemvGoesByTheRowsOfTheRun) {
  const std::int64_t m = most_gemv_rows() + 8, n = 96, k = 40;
  Made made(gemv({.m = m, .n = n, .k = k}));
  const std::vector<float> x = random_floats(m * k, 1);
  const std::vector<char> w = random_bytes(n * k, Dtype::f32, 2);
  made.maker.begin(0, -1);
  for (const Box& box : made.boxes()) made.make(inputs_of(x, w), box);
  EXPECT_TRUE(same_bits(made.y, whole(made.producer, x.data(), w.data())));
  const std::int64_t few = 3;
  std::vector<float> want(num(few * n));
  for (std::int64_t i = 0; i < few; ++i) gemv(n, k, w.data(), Dtype::f32, k, x.data() + i * k, want.data() + i * n);
  made.maker.begin(1, few);
  std::fill(made.y.begin(), made.y.end(), 0.0f);
  for (Box box : made.boxes()) {
    box.hi[0] = std::min(box.hi[0], few);
    if (box.lo[0] < few) made.make(inputs_of(x, w), box);
  }
  EXPECT_TRUE(same_bits({made.y.begin(), made.y.begin() + few * n}, want));
}

}  // namespace
}  // namespace weft
