// Routes of all_reduce whose chunks are of equal rows and whose sums have an order of their own: halving and doubling,
// and dimension by dimension on a torus of two to four dimensions. What holds for one holds for all.
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/collective/build.h"
#include "weft/collective/draft.h"
#include "weft/plan/plans_test.h"
#include "weft/plan/price/traffic.h"
#include "weft/plan/text/save.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

using testing_plans::small_gemm;
using testing_plans::space_of;

// Halving and doubling has one dimension; a torus has several.
struct Layout {
  std::vector<int> dims;

  int ranks() const { return std::accumulate(dims.begin(), dims.end(), 1, std::multiplies<>()); }
  Route route() const { return dims.size() == 1 ? Route::halving_doubling : Route::torus; }
  std::string name() const { return fmt::format("{} {}", to_string(route()), fmt::join(dims, " x ")); }
  Space space() const {
    Space out = space_of(ranks(), SpaceKind::all_reduce);
    if (dims.size() > 1) out.options.torus = dims;
    return out;
  }
  Plan plan(const Producer& p) const { return build_all_reduce(p, space(), route()); }
};

std::vector<Layout> layouts() {
  return {{{2}},    {{4}},    {{8}},    {{16}},   {{32}},      {{2, 2}},    {{2, 3}},    {{3, 2}},    {{4, 2}},
          {{4, 4}}, {{3, 5}}, {{4, 3}}, {{5, 2}}, {{2, 2, 2}}, {{3, 2, 4}}, {{2, 4, 3}}, {{4, 3, 2}}, {{2, 3, 2, 2}}};
}

TEST(EqualChunks, AreProved) {
  for (const Layout& layout : layouts())
    for (const std::int64_t rows : {1, 3, 8}) {
      const Plan plan = layout.plan(small_gemm(rows * layout.ranks(), 20, 5, layout.ranks(), true));
      const Verdict verdict = verify(plan);
      EXPECT_TRUE(verdict.ok()) << layout.name() << ": " << (verdict.ok() ? "" : verdict.problems[0]);
      EXPECT_EQ(plan.sum, Sum::any);
    }
}

TEST(EqualChunks, MoveTheBytesOfARingAndMakeEachTileOnce) {
  for (const Layout& layout : layouts()) {
    const int ranks = layout.ranks();
    const Producer p = small_gemm(4 * ranks, 16, 5, ranks);
    const Plan plan = layout.plan(p), ring = build_all_reduce(p, space_of(ranks, SpaceKind::all_reduce), Route::ring);
    EXPECT_EQ(traffic(plan).total.bytes_to_peers, traffic(ring).total.bytes_to_peers) << layout.name();
    const Expander expander(plan);
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t steps = 0, rows = 0;
      for (const Action& action : expander.program(rank).actions)
        if (action.kind == ActionKind::step) ++steps, rows += action.box.size(0);
      EXPECT_EQ(rows, 4 * ranks);
      EXPECT_EQ(steps, layout.dims.size() == 1 ? std::llround(std::log2(ranks)) + 1 : ranks) << layout.name();
    }
  }
}

TEST(EqualChunks, OnATorusGoToTheNextRankAlone) {
  for (const Layout& layout : layouts()) {
    if (layout.dims.size() == 1) continue;
    const Plan plan = layout.plan(small_gemm(4 * layout.ranks(), 16, 5, layout.ranks()));
    const Expander expander(plan);
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      std::vector<int> next{rank};
      int stride = 1;
      for (std::size_t d = layout.dims.size(); d-- > 0; stride *= layout.dims[d]) {
        const int place = rank / stride % layout.dims[d];
        next.push_back(rank + ((place + 1) % layout.dims[d] - place) * stride);
      }
      const Program program = expander.program(rank);
      for (const Action& action : program.actions)
        for (const Piece& target : program.targets(action))
          EXPECT_NE(std::find(next.begin(), next.end(), target.rank), next.end())
              << layout.name() << ": " << rank << " to " << target.rank;
    }
  }
}

TEST(EqualChunks, AProofNoticesWhatIsLost) {
  for (const Layout& layout : {Layout{{8}}, Layout{{4, 3}}, Layout{{3, 2, 3}}}) {
    const Plan plan = layout.plan(small_gemm(6 * layout.ranks(), 16, 5, layout.ranks()));
    int broken = 0;
    for (std::size_t i = 0; i < plan.rules.size(); ++i) {
      if (plan.rules[i].targets.empty()) continue;  // moves nothing
      Plan early = plan;                            // does not wait for what comes
      std::vector<WaitRule>& waits = early.rules[i].waits;
      std::erase_if(waits, [](const WaitRule& wait) { return wait.lag == 0; });
      EXPECT_FALSE(verify(early).ok()) << layout.name() << ", " << plan.rules[i].name;
      ++broken;
      if (plan.rules[i].kind != ActionKind::step) continue;
      Plan wrong = plan;  // another rank gets it
      wrong.rules[i].targets[0].rank = Expr::parse(layout.dims.size() == 1 ? "(r + d) % N" : "(r + 5) % N");
      EXPECT_FALSE(verify(wrong).ok()) << layout.name() << ", " << plan.rules[i].name;
    }
    EXPECT_EQ(broken, layout.dims.size() == 1 ? 2 : 2 * int_size(layout.dims));
    Plan listed = plan;  // not the order that flat routes have
    listed.sum = Sum::listed;
    EXPECT_FALSE(verify(listed).ok()) << layout.name();
  }
}

TEST(EqualChunks, AreBuiltWhereTheyAreAskedFor) {
  for (const Route route : {Route::halving_doubling, Route::torus}) {
    Space space = space_of(8, SpaceKind::all_reduce);
    space.options.route = route;
    const Plan plan = build(gemm({.m = 32, .n = 16, .k = 4}), space);
    EXPECT_EQ(plan.route, route);
    EXPECT_EQ(plan.why.rfind(fmt::format("{}: as asked", to_string(route)), 0), 0u) << plan.why;
    EXPECT_EQ(to_json(parse_plan(to_json(plan), "text")), to_json(plan));
  }
  EXPECT_EQ(torus_of(space_of(8, SpaceKind::all_reduce)), (std::vector<int>{4, 2}));
  EXPECT_EQ(parse_route("halving-doubling"), Route::halving_doubling);
}

TEST(EqualChunks, AreRefusedWhereTheyCannotBe) {
  const auto says = [](Route route, int ranks, std::int64_t rows, auto&& change) {
    Space space = space_of(ranks, SpaceKind::all_reduce);
    space.options.route = route;
    change(&space);
    return refusal([&] { build(gemm({.m = rows, .n = 16, .k = 4}), space); });
  };
  const auto expect = [](const std::string& sentence, const char* part) {
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  };
  const auto nothing = [](Space*) {};
  expect(says(Route::halving_doubling, 6, 36, nothing), "for 2, 4, 8, ... ranks, not 6");
  for (const Route route : {Route::halving_doubling, Route::torus}) {
    expect(says(route, 4, 37, nothing), "37 rows into 4 equal chunks: 1 are left over; use 40 rows");
    expect(says(route, 4, 32, [](Space* s) { s->options.wire = Dtype::bf16; }), "sends f32");
    expect(says(route, 4, 32, [](Space* s) { s->options.slices = 4; }), "not made in slices");
    expect(says(route, 4, 32, [](Space* s) { s->kind = SpaceKind::reduce_scatter; }), "no route");
  }
  const auto on = [](std::vector<int> dims) { return [dims](Space* s) { s->options.torus = dims; }; };
  expect(says(Route::torus, 8, 32, on({8, 1})), "8 ranks are on 8 x 1; use ring");
  expect(says(Route::torus, 8, 32, on({8})), "two or more dimensions of 2 or more ranks each");
  expect(says(Route::torus, 8, 32, on({2, 2, 3})), "8 ranks are on 2 x 2 x 3");
  expect(says(Route::torus, 8, 32, on({-2, -4})), "8 ranks are on -2 x -4");
}

}  // namespace
}  // namespace weft
