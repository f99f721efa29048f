// Every assumption broken by hand, one at a time: verify() refuses the plan and says which.
#include "weft/plan/assumptions.h"

#include <functional>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/plan/plans_test.h"
#include "weft/plan/small_plans_test.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using testing::e;
using testing::pair_plan;
using testing::rows;
using testing::shot_plan;
using testing_plans::gather_gemm_plan;
using testing_plans::small_gemm;
using testing_plans::space_of;

constexpr std::int64_t kHuge = std::int64_t{1} << 31;

struct Breach {
  const char* says;
  Plan plan;
  std::function<void(Plan&)> spoil;
};

void expect_refused(const std::vector<Breach>& breaches) {
  for (const Breach& breach : breaches) {
    EXPECT_TRUE(verify(breach.plan).ok()) << breach.says << ": " << verify(breach.plan).problems.front();
    Plan plan = breach.plan;
    breach.spoil(plan);
    const std::string said = refusal([&] { require_runnable(plan); });
    EXPECT_NE(said.find(breach.says), std::string::npos) << said << "\n  does not say " << breach.says;
  }
}

// Rules send (x to a), gemm (a and x to y) and credit; buffers x, a, y.
Plan gather(bool residual = false) {
  Producer p = gemm({.m = 8, .n = 24, .k = 16, .tile = {4, 8}, .bias = true, .residual = residual});
  return gather_gemm_plan(validated(p, 2), 2, Route::direct);
}
constexpr int kX = 0, kA = 1, kY = 2, kSend = 0, kGemm = 1;

// A gemm of k 16 over rows that lie in a buffer as wide as `width`.
void widen(Plan& p, int buffer, std::int64_t width) { p.buffers[at(buffer)].shape[1] = width; }

Plan bags() {
  const Producer p = validated(embedding_bag({.tables = 3, .rows = 10, .dim = 6, .batch = 8, .tile_rows = 4}), 2);
  Space space = space_of(2, SpaceKind::all_to_all);
  space.options.stack = Stack::columns;
  return build_all_to_all(p, space);
}

Plan kept(bool residual = false, bool addend = false) {
  const GemmOptions options{
      .m = 8, .n = 24, .k = 16, .tile = {4, 8}, .addend = addend, .bias = true, .residual = residual};
  return build_keep(validated(gemm(options), 2), 2);
}

Plan windowed() { return build_keep(validated(window({.m = 8, .n = 8}), 2), 2); }

TEST(Assumptions, HoldForTheSmallPlans) {
  for (const Plan& plan : {pair_plan(), shot_plan(), gather(), bags(), kept(true, true), windowed()}) {
    const Expander expander(plan);
    for (int rank = 0; rank < plan.num_ranks; ++rank)
      EXPECT_TRUE(assumptions_hold(plan, expander, expander.program(rank))) << plan.name;
  }
}

TEST(Assumptions, ReadsAreWholeRowsOfFloatsOneAfterAnother) {
  expect_refused({
      {"rows have 20 values; a product with k 16", gather(), [](Plan& p) { widen(p, kA, 20); }},
      {"rows have 20 values; a product with k 16", gather(),
       [](Plan& p) {
         widen(p, kA, 20);
         for (PieceRule* piece : {&p.rules[kSend].targets[0], &p.rules[kGemm].reads[1]})
           piece->box.lo[1] = 4, piece->box.hi[1] = 20;
       }},
      {"which is bf16 in 2 dimensions", gather(), [](Plan& p) { p.buffers[kA].dtype = Dtype::bf16; }},
      {"which is f32, packed, in 2 dimensions", gather(),
       [](Plan& p) {
         p.buffers[kA].packing = {8, 4, 16};
       }},
      {"reads rows of 2 pieces", gather(), [](Plan& p) { p.rules[kGemm].reads[0].when = 1; }},
      {"reads rows for a copy", gather(),
       [](Plan& p) {
         Producer& producer = p.producers[0];
         producer = validated(copy({.rows = 8, .cols = 24, .tile = {4, 8}}), 2);
       }},
      {"only steps make something from rows", gather(),
       [](Plan& p) {
         p.rules[kSend].reads = {piece(kX, {{0, 0}, {8, 16}})};
       }},
  });
}

TEST(Assumptions, StepsStayInsideTheirOutput) {
  const auto narrow = [](Plan& p) { p.producers[0].n = 16, p.producers[0].tile = {4, 8}; };
  expect_refused({
      {"makes [0:8, 0:24] of an output of 8 x 16", gather(), narrow},
      {"makes [0:8, 0:24] of an output of 8 x 16", kept(), narrow},
      {"makes [0:8, 0:24] of an output of 7 x 24", kept(), [](Plan& p) { p.producers[0].m = 7; }},
      {"of an output of 8 x 24", gather(), [](Plan& p) { p.producers[0].addend = true; }},
  });
}

TEST(Assumptions, ATileOfTablesIsOneWholeTable) {
  const char* says = "is one whole table of 6";
  const auto step = [](Plan& p) -> Rule& { return p.rules[1]; };
  expect_refused({
      {says, bags(), [&](Plan& p) { step(p).tile[1] = 3, p.counters[1].total = e("6"), p.rules[2].waits[0].at = 6; }},
      {says, bags(), [&](Plan& p) { step(p).tile[1] = 12; }},
      {says, bags(), [&](Plan& p) { step(p).tile[1] = 0; }},
      {says, bags(), [&](Plan& p) { step(p).tile[1] = kHuge; }},
      {says, bags(),
       [&](Plan& p) {
         step(p).box.lo[1] = 3;
         step(p).targets[0].box.lo[1] = e("r * n + 3");
       }},
      {"no multiple of dim 6", bags(),
       [&](Plan& p) {
         p.producers[0].n_of = {18, 15};
       }},
      {"no multiple of dim 6", bags(), [&](Plan& p) { p.producers[0].n = 20; }},
  });
}

TEST(Assumptions, TilesFitTheMemoryTheyAreMadeIn) {
  expect_refused({
      {"works on tiles of 4 x 2147483648", kept(), [](Plan& p) { p.rules[0].tile[1] = kHuge; }},
      {"works on tiles of 2147483648 x 8", kept(), [](Plan& p) { p.rules[0].tile[0] = kHuge; }},
      {"works on tiles of 4 x 137438953472", build_keep(testing_plans::small_copy(8, 8, 2), 2),
       [](Plan& p) { p.rules[0].tile[1] = kHuge * 64; }},
  });
}

TEST(Assumptions, BuffersAreOfAKindThatExecutorsKnow) {
  expect_refused({
      {"output \"y\" is packed in tiles", kept(),
       [](Plan& p) {
         p.buffers[0].packing = {8, 4, 8};
       }},
      {"input \"x\" is packed in tiles", gather(),
       [](Plan& p) {
         p.buffers[kX].packing = {8, 4, 16};
       }},
      {"output \"y\" is bf16", kept(), [](Plan& p) { p.buffers[0].dtype = Dtype::bf16; }},
      {"input \"x\" is bf16", gather(), [](Plan& p) { p.buffers[kX].dtype = Dtype::bf16; }},
      {"input \"x\" has 256 elements on rank 0, but the x of its gemm has 128", gather(),
       [](Plan& p) { p.buffers[kX].shape[0] = 16; }},
      {"beside a producer embedding_bag", bags(),
       [](Plan& p) {
         p.buffers.push_back({"x", Dtype::f32, Role::input, {1, 1}, 1, {}});
       }},
      {"packed in blocks of 0 rows", pair_plan(), [](Plan& p) { p.buffers[0].packing.block_rows = 0; }},
      {"has more than 1099511627776 elements", pair_plan(),
       [](Plan& p) {
         p.buffers[0].packing = {4, std::int64_t{1} << 40, std::int64_t{1} << 40};
       }},
      {"has more than 1099511627776 elements", pair_plan(),
       [](Plan& p) {
         p.buffers[0].packing = {std::int64_t{1} << 40, 2, 4};
       }},
      {"is int8 but not internal and packed", pair_plan(), [](Plan& p) { p.buffers[0].dtype = Dtype::int8; }},
  });
}

TEST(Assumptions, IntegersAreOnlyMoved) {
  const auto both = [](Plan& p) { p.buffers[0].dtype = Dtype::i64; };
  expect_refused({
      {"makes, adds up or converts i64 of \"inbox\"", pair_plan(), both},
      {"makes, adds up or converts i64 of \"inbox\"", shot_plan(), both},
      {"makes, adds up or converts i32 of \"a\"", gather(), [](Plan& p) { p.buffers[kA].dtype = Dtype::i32; }},
  });
}

TEST(Assumptions, EpiloguesFindTheirBiasAndResidual) {
  expect_refused({
      {"adds a residual of 24 columns to \"y\", which has 30", kept(true), [](Plan& p) { widen(p, 0, 30); }},
      {"is not its own output", kept(true), [](Plan& p) { p.buffers[0].role = Role::internal; }},
  });
  // A trigger finishes what has one dimension.
  Plan line = kept();
  line.buffers.push_back({"line", Dtype::f32, Role::internal, {8}, 1, {}});
  line.buffers.push_back({"done", Dtype::f32, Role::internal, {8}, 1, {}});
  Rule fill;
  fill.name = "finish", fill.box = {{0}, {8}}, fill.finish = 1;
  fill.sources = {piece(1, fill.box)}, fill.targets = {piece(2, fill.box)};
  line.rules.push_back(fill);
  EXPECT_NE(refusal([&] { require_runnable(line); }).find("an epilogue is applied to rows and columns"),
            std::string::npos);
  line.producers[0].bias = false, line.producers[0].activation = Activation::none;
  EXPECT_NE(refusal([&] { require_runnable(line); }).find("rows and columns"), std::string::npos);
}

TEST(Assumptions, ABiasIsAsWideAsItsBox) {
  Plan plan = kept();
  plan.rules[0].finish = 0;
  plan.owed[0].finished = false;
  EXPECT_TRUE(verify(plan).ok());
  plan.buffers.push_back({"wide", Dtype::f32, Role::internal, {8, 24}, 1, {}});
  plan.counters.push_back({"made", 1, 6});
  plan.rules[0].signals = {signal(e("r"), 0)};
  Rule finish;
  finish.name = "finish", finish.box = {{0, 8}, {8, 32}}, finish.finish = 1;
  finish.waits = {wait(0).reaches(6)};
  finish.sources = {piece(0, {{0, 0}, {8, 24}})}, finish.targets = {piece(1, {{0, 0}, {8, 24}})};
  plan.rules.push_back(finish);
  EXPECT_NE(refusal([&] { require_runnable(plan); }).find("but the bias has 24 columns"), std::string::npos);
}

TEST(Assumptions, AWindowWaitsForAllItsRowsAtOnce) {
  expect_refused({{"the rows of a window are written all at once", windowed(), [](Plan& p) {
                     p.counters.push_back({"free", 2, 1});
                     p.rules[0].tile = {4, 0};
                     p.rules[0].waits = {wait(0).per_lane().lag(1)};
                     p.rules[0].signals = {signal(e("r"), 0).per_lane()};
                   }}});
}

// A page is what was written in it: nobody converts it, and nobody gathers its rows into tiles.
TEST(Assumptions, AWindowStoresItsRowsAsTheyWereWritten) {
  const auto into_slots = [](Plan& p) -> Buffer& {
    p.buffers.push_back({"slots", p.buffers[0].dtype, Role::internal, {8, 8}, 2, {}});
    p.rules[0].targets.push_back(p.rules[0].targets[0]);
    p.rules[0].targets[1].buffer = 1;
    return p.buffers[1];
  };
  for (const Dtype written : {Dtype::f32, Dtype::bf16}) {
    const Plan plan = build_keep(validated(window({.m = 8, .n = 8, .dtype = written}), 2), 2);
    Plan same = plan;
    into_slots(same);
    EXPECT_TRUE(verify(same).ok()) << verify(same).problems.front();
    expect_refused({{"stores rows of a window in \"slots\", which is", plan,
                     [&](Plan& p) { into_slots(p).dtype = written == Dtype::f32 ? Dtype::bf16 : Dtype::f32; }},
                    {"packed; they stay as they were written", plan, [&](Plan& p) {
                       into_slots(p).packing = {8, 8, 8};
                     }}});
  }
}

// Finer lanes than tiles, each inside one, are as good as whole tiles.
TEST(Assumptions, LanesMayBeSmallerThanTheTilesTheyLieIn) {
  Plan plan = pair_plan();
  plan.buffers[0].packing = {4, 4, 8};
  EXPECT_TRUE(verify(plan).ok()) << verify(plan).problems.front();
  plan.buffers[0].packing = {4, 3, 8};
  EXPECT_FALSE(verify(plan).ok());
  plan.buffers[0].packing = {3, 2, 8};
  EXPECT_FALSE(verify(plan).ok());
}

}  // namespace
}  // namespace weft
