// How outputs are cut into panels: every row or column is in exactly one, and owners get one block of each.
#include "weft/study/panels.h"

#include <gtest/gtest.h>

#include "weft/collective/build.h"

namespace weft {
namespace {

OpSpec cut_spec(const Producer& producer, SpaceKind kind, int ranks, bool gathers = false) {
  OpSpec spec;
  spec.name = "test";
  spec.producer = producer;
  spec.space.kind = kind;
  spec.space.mesh = Mesh({{"tp", ranks}});
  spec.space.axis = "tp";
  spec.ranks = ranks;
  spec.gathers = gathers;
  return spec;
}

constexpr SpaceKind kSummed[] = {SpaceKind::reduce_scatter, SpaceKind::all_reduce, SpaceKind::all_to_all};

// How often each of `length` rows or columns stands in a panel.
std::vector<int> times_cut(const OpSpec& spec, int panels, std::int64_t length) {
  std::vector<int> times(num(length), 0);
  for (int p = 0; p < panels; ++p)
    for (const Stretch& stretch : panel_stretches(spec, panels, p))
      for (std::int64_t row = stretch.begin; row < stretch.end; ++row) ++times.at(at(row));
  return times;
}

TEST(PanelStretches, CoverEveryRowOnce) {
  for (const int ranks : {2, 3, 5})
    for (const std::int64_t m : {20, 41, 64, 1001})
      for (const int panels : {2, 3, 4})
        for (const SpaceKind kind : kSummed) {
          const OpSpec spec = cut_spec(gemm({.m = m, .n = 8, .k = 4}), kind, ranks);
          ASSERT_TRUE(panels_fit(spec, panels));
          EXPECT_EQ(times_cut(spec, panels, m), std::vector<int>(num(m), 1))
              << to_string(kind) << " of " << m << " rows, " << ranks << " ranks, " << panels << " panels";
        }
}

TEST(PanelStretches, OfOwnersLieInTheirParts) {
  for (const int ranks : {2, 3, 7}) {
    const OpSpec spec = cut_spec(gemm({.m = 100, .n = 8, .k = 4}), SpaceKind::reduce_scatter, ranks);
    for (int p = 0; p < 4; ++p) {
      const auto stretches = panel_stretches(spec, 4, p);
      ASSERT_EQ(int_size(stretches), ranks);
      for (int owner = 0; owner < ranks; ++owner) {
        EXPECT_GE(stretches[at(owner)].begin, cut(100, ranks, owner));
        EXPECT_LE(stretches[at(owner)].end, cut(100, ranks, owner + 1));
        EXPECT_GT(stretches[at(owner)].size(), 0);
      }
    }
  }
}

TEST(PanelStretches, PanelsAreAboutAsLargeAsEachOther) {
  const OpSpec spec = cut_spec(gemm({.m = 103, .n = 8, .k = 4}), SpaceKind::all_reduce, 2);
  for (int p = 0; p < 4; ++p) {
    const auto stretches = panel_stretches(spec, 4, p);
    ASSERT_EQ(stretches.size(), 1u);
    EXPECT_TRUE(stretches[0].size() == 25 || stretches[0].size() == 26);
  }
}

TEST(PanelStretches, OfAVectorAreColumns) {
  const OpSpec spec = cut_spec(gemv({.n = 50, .k = 4}), SpaceKind::all_reduce, 2);
  EXPECT_EQ(panel_by(spec), PanelBy::columns);
  EXPECT_EQ(times_cut(spec, 4, 50), std::vector<int>(50, 1));
  EXPECT_FALSE(panels_fit(spec, 51));
}

TEST(PanelsFit, WhereEveryOwnerHasARowForEachPanel) {
  const auto fit = [](std::int64_t m, SpaceKind kind, int panels) {
    return panels_fit(cut_spec(gemm({.m = m, .n = 8, .k = 4}), kind, 3), panels);
  };
  EXPECT_TRUE(fit(12, SpaceKind::reduce_scatter, 4));
  EXPECT_FALSE(fit(11, SpaceKind::reduce_scatter, 4)) << "the last owner has 3 rows";
  EXPECT_TRUE(fit(11, SpaceKind::all_reduce, 4));
  EXPECT_FALSE(fit(3, SpaceKind::all_reduce, 4));
  EXPECT_FALSE(fit(12, SpaceKind::keep, 2)) << "nothing travels";
  const OpSpec gathers = cut_spec(gemm({.m = 12, .n = 8, .k = 4}), SpaceKind::all_gather, 3, true);
  EXPECT_EQ(panel_by(gathers), PanelBy::rows);
  EXPECT_TRUE(panels_fit(gathers, 4));
}

TEST(PanelRoutes, DoNotWaitForOthers) {
  EXPECT_EQ(unblocking_route(SpaceKind::all_reduce, 100), Route::one_shot);
  EXPECT_EQ(unblocking_route(SpaceKind::all_reduce, 1 << 20), Route::two_shot);
  for (const SpaceKind kind : {SpaceKind::reduce_scatter, SpaceKind::all_gather, SpaceKind::all_to_all}) {
    const Route route = unblocking_route(kind, 1 << 20);
    const auto known = routes(kind);
    EXPECT_TRUE(route == Route::automatic || std::find(known.begin(), known.end(), route) != known.end());
    EXPECT_NE(route, Route::ring) << to_string(kind) << ": each of its steps waits for the one before";
  }
}

}  // namespace
}  // namespace weft
