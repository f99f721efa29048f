#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/exec/cuda/plans_test.h"
#include "weft/exec/cuda/window/tracked_rows.h"

namespace weft {
namespace {

using testing_cuda::CudaCase;

CudaCase tracked_case(std::int64_t m, int ranks, Route route = Route::direct, SpaceKind space = SpaceKind::all_to_all) {
  return {"", m, 264, 16, {128, 256}, ranks, route, WeightLayout::nk, space};
}

TrackedPlan tracked(const CudaCase& c, int panels, std::int64_t crossing_bytes = 50'000) {
  const Plan plan = testing_cuda::plan_of(c);
  return tracked_plan(plan, Expander(plan), panels, crossing_bytes);
}

// Each row of each rank in one panel; what crosses is what its panels hold, and each row of each output comes once.
TEST(TrackedPlan, EveryRowIsMadeInOnePanelAndComesOnce) {
  const std::int64_t row_bytes = 264 * 2;
  for (const int ranks : {2, 3, 4})
    for (const int panels : {1, 5, 16}) {
      const TrackedPlan found = tracked(tracked_case(1200, ranks), panels);
      std::set<std::pair<int, std::int64_t>> made, came;
      for (int r = 0; r < ranks; ++r)
        for (const RowPanel& panel : found.panels[at(r)]) {
          std::int64_t next = panel.row;
          for (int i = panel.first_crossing; i < panel.first_crossing + panel.crossings; ++i) {
            const Crossing& crossing = found.device.crossings[at(i)];
            EXPECT_EQ(std::pair(crossing.from, crossing.to), std::pair(r, panel.to));
            ASSERT_EQ(crossing.copies.size(), 1u);
            const CrossingCopy& copy = crossing.copies[0];
            EXPECT_EQ(copy.from, next * row_bytes);
            const std::int64_t there = copy.to - found.device.layout[at(panel.to)].matrices[1].offset;
            // A receiver's rows are stacked by sender.
            EXPECT_EQ(there / row_bytes, r * (1200 / ranks) + next - panel.to * (1200 / ranks));
            for (std::int64_t row = 0; row < copy.bytes() / row_bytes; ++row) {
              EXPECT_TRUE(made.insert({r, next + row}).second);
              EXPECT_TRUE(came.insert({panel.to, there / row_bytes + row}).second);
            }
            next += copy.bytes() / row_bytes;
          }
          EXPECT_EQ(next, panel.row + panel.rows);
        }
      EXPECT_EQ(made.size(), num(1200 * ranks));
      EXPECT_EQ(came.size(), num(1200 * ranks));
    }
}

TEST(TrackedPlan, PeersTakeTurnsAndWhatARankKeepsComesLastInOnePiece) {
  const TrackedPlan found = tracked(tracked_case(4096, 4), 16);
  for (int r = 0; r < 4; ++r) {
    const std::vector<RowPanel>& panels = found.panels[at(r)];
    ASSERT_EQ(panels.size(), 13u);
    for (int i = 0; i < 12; ++i) {
      EXPECT_EQ(panels[at(i)].to, (r + 1 + i % 3) % 4);
      EXPECT_EQ(panels[at(i)].rows, 256);
      EXPECT_EQ(panels[at(i)].row, panels[at(i)].to * 1024 + i / 3 * 256);
    }
    EXPECT_EQ(panels[12].to, r);
    EXPECT_EQ(panels[12].rows, 1024);
  }
}

TEST(TrackedPlan, PanelsAreAboutAsHighAsEachOtherAndOfWholeTiles) {
  const TrackedPlan found = tracked(tracked_case(4 * 1000, 4), 10);  // at most 512 rows each
  const std::vector<RowPanel>& panels = found.panels[0];
  ASSERT_EQ(panels.size(), 7u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(panels[at(i)].rows, i < 3 ? 512 : 488);
  EXPECT_EQ(tracked(tracked_case(3 * 400, 3), 3).panels[0][0].rows, 400);
  EXPECT_EQ(tracked(tracked_case(3 * 400, 3), 4).panels[0][0].rows, 256);  // of 384 and 16
}

TEST(TrackedPlan, PanelsCrossInPiecesAsLargeAsAskedForAndEachWithACounterOfItsOwn) {
  const TrackedPlan found = tracked(tracked_case(1200, 3), 4, 50'000);
  for (int r = 0; r < 3; ++r) {
    std::set<std::uint32_t> counters;
    for (std::size_t p = 0; p < found.panels[at(r)].size(); ++p) {
      EXPECT_TRUE(counters.insert(static_cast<std::uint32_t>(p)).second);
      const RowPanel& panel = found.panels[at(r)][p];
      EXPECT_EQ(panel.crossings, panel.to == r ? 1 : ceil_div(panel.rows * 264 * 2, 50'000));
    }
    for (const Crossing& crossing : found.device.crossings) {
      EXPECT_TRUE(crossing.from == crossing.to || crossing.bytes() <= 50'000 + 264 * 2);
      EXPECT_TRUE(crossing.to != r || counters.insert(crossing.arrived).second);
    }
    EXPECT_EQ(std::ssize(counters), found.device.layout[at(r)].num_counters);
  }
}

TEST(TrackedPlan, SumsCopiesAndNoPanelsAreRefused) {
  for (const auto& [route, space] :
       {std::pair{Route::ring, SpaceKind::reduce_scatter}, std::pair{Route::staged, SpaceKind::all_to_all},
        std::pair{Route::two_shot, SpaceKind::all_reduce}})
    EXPECT_NE(
        refusal([&, r = route, s = space] {
          tracked(tracked_case(1200, 4, r, s), 8);
        }).find("is more than stores of whole rows; a window takes a product that is kept, or goes by all_to_all"),
        std::string::npos);
  EXPECT_EQ(refusal([] { tracked(tracked_case(1200, 4), 0); }),
            "rows cannot be cut in 0 panels; 8, 16 or 32 keep a link busy");
}

TEST(TrackedPlan, APanelThatIsMissingIsNamedWithItsRowsAndRanks) {
  const TrackedPlan found = tracked(tracked_case(1200, 3), 8);
  CrossingFailure failure;
  failure.index = found.panels[2][1].first_crossing, failure.waited_ns = 300'000'000;
  EXPECT_EQ(describe_panel(found, failure),
            "rank 2 waited 0.3 s to send its panel 1 of 5, rows 400 to 655, to rank 1: nobody has made it");
}

}  // namespace
}  // namespace weft
