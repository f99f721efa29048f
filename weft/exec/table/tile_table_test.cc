#include "weft/exec/table/tile_table.h"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/collective/build.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

Plan summed(SpaceKind kind, Route route, int ranks, Dtype dtype = Dtype::f32) {
  Space space{kind, Mesh({{"tp", ranks}}), "tp", {}};
  space.options.route = route;
  space.options.wire = dtype;
  return build(gemm({.m = 64, .n = 96, .k = 16, .weight = dtype, .tile = {16, 32}, .x = dtype, .y = dtype}), space);
}

std::string refusal_of(const Plan& plan) {
  try {
    const Expander expander(plan);
    tile_plan(plan, expander, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_input);
    return error.what();
  }
  return "";
}

struct RouteCase {
  SpaceKind kind;
  Route route;
};
const RouteCase kRoutes[] = {{SpaceKind::reduce_scatter, Route::ring}, {SpaceKind::reduce_scatter, Route::direct},
                             {SpaceKind::all_reduce, Route::ring},     {SpaceKind::all_reduce, Route::one_shot},
                             {SpaceKind::all_reduce, Route::two_shot}, {SpaceKind::all_to_all, Route::direct}};

TEST(TileTable, EveryTileIsMadeOnce) {
  for (const RouteCase& c : kRoutes)
    for (const int ranks : {2, 4}) {
      const Plan plan = summed(c.kind, c.route, ranks);
      const Expander expander(plan);
      const TilePlan tiles = tile_plan(plan, expander, {.group_rows = 2});
      for (const TileTable& table : tiles.tables) {
        std::set<std::pair<int, int>> made;
        for (int i = 0; i < table.tiles; ++i) made.emplace(table.lanes[at(i)].row, table.lanes[at(i)].col);
        EXPECT_EQ(made.size(), 4u * 3u) << plan.name;
        EXPECT_EQ(table.tiles, 12) << plan.name;
        EXPECT_EQ(int_size(table.lanes), table.tiles + table.opening + table.closing);
      }
    }
}

TEST(TileTable, CountersGrowByTheirTotals) {
  for (const RouteCase& c : kRoutes) {
    const Plan plan = summed(c.kind, c.route, 4);
    const Expander expander(plan);
    const TilePlan tiles = tile_plan(plan, expander, {.programs = 3});
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> raised;
    for (const TileTable& table : tiles.tables)
      for (const TileSignal& signal : table.signals) ++raised[{signal.rank, signal.counter}];
    for (int r = 0; r < 4; ++r)
      for (const TileLate& late : tiles.tables[at(r)].late)
        for (const std::int64_t count : late.by_program) raised[{r, late.counter}] += count;
    EXPECT_FALSE(raised.empty());
    for (const auto& [which, count] : raised)
      EXPECT_EQ(count, expander.counter_total(static_cast<int>(which.second), static_cast<int>(which.first)))
          << plan.name << " " << expander.counter_name(static_cast<int>(which.second), static_cast<int>(which.first));
  }
}

// A ring's rows travel tile by tile: what one rank stores in an inbox, and nothing else, the next one adds.
TEST(TileTable, WhatIsStoredIsAddedByTheNextRank) {
  const Plan plan = summed(SpaceKind::reduce_scatter, Route::ring, 3, Dtype::bf16);
  const Expander expander(plan);
  const TilePlan tiles = tile_plan(plan, expander, {});
  for (int r = 0; r < 3; ++r) {
    std::set<std::int64_t> stored, added;
    for (const TilePlace& place : tiles.tables[at(r)].places)
      if (place.rank != r) {
        EXPECT_EQ(place.rank, (r + 1) % 3);
        EXPECT_EQ(place.stride, 32);
        stored.insert(place.offset);
      }
    for (const TileLane& lane : tiles.tables[at((r + 1) % 3)].lanes)
      for (int i = 0; i < lane.sources; ++i)
        added.insert(tiles.tables[at((r + 1) % 3)].places[at(lane.first_source + i)].offset);
    EXPECT_EQ(stored, added);
    std::int64_t bytes = 0;
    for (const TileSignal& signal : tiles.tables[at(r)].signals) bytes += signal.bytes;
    const std::int64_t own = expander.shape(tiles.output, (r + 2) % 3)[0];  // rows that it does not pass on
    EXPECT_GT(own, 0);
    EXPECT_EQ(bytes % (96 * 2), 0);
    EXPECT_GE(bytes, (64 - 22) * 96 * 2) << "all but a third of the rows are sent";
  }
}

TEST(TileTable, GroupsShareColumns) {
  const Plan plan = summed(SpaceKind::reduce_scatter, Route::direct, 2);
  const Expander expander(plan);
  const TileTable table = tile_plan(plan, expander, {.group_rows = 2}).tables[0];
  const auto& lanes = table.lanes;  // 2 rows of 3 tiles per step
  EXPECT_EQ(lanes[0].col, lanes[1].col);
  EXPECT_EQ(lanes[0].row + 16, lanes[1].row);
  EXPECT_EQ(lanes[2].col, 32);
}

TEST(TileTable, ProgramsOfAnyNumberEnd) {
  for (const RouteCase& c : kRoutes)
    for (const int programs : {1, 2, 3, 5, 64}) {
      const Plan plan = summed(c.kind, c.route, 4);
      require_runnable(plan);
      const Expander expander(plan);
      EXPECT_NO_THROW(require_tiles_end(plan, expander, tile_plan(plan, expander, {.programs = programs})))
          << plan.name << " with " << programs;
    }
}

// A step that waits for what a trigger sends on, which fires after the steps alone.
TEST(TileTable, ProgramsThatNeedATriggerInBetweenAreRefused) {
  Plan plan = summed(SpaceKind::reduce_scatter, Route::ring, 2);
  for (Rule& rule : plan.rules)
    if (rule.kind == ActionKind::step)
      for (WaitRule& wait : rule.waits)
        if (wait.lag == 1) wait.lag = 0;  // the credit of the same run
  const Expander expander(plan);
  const TilePlan tiles = tile_plan(plan, expander, {.programs = 4});
  try {
    require_tiles_end(plan, expander, tiles);
    FAIL() << "accepted";
  } catch (const Error& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("4 programs per rank"), std::string::npos) << said;
    EXPECT_NE(said.find("waited"), std::string::npos) << said;
    EXPECT_NE(said.find("saw 0 of 1"), std::string::npos) << said;
  }
  EXPECT_THROW(tile_plan(plan, expander, {.programs = 0}), Error);
}

// Of a ring: one credit per program, one wait per tile that is passed on, and one signal per tile but the last ones.
TEST(TileTable, AProgramAsksForACreditOnceAndTellsWhatItUsedOnce) {
  const Plan plan = summed(SpaceKind::reduce_scatter, Route::ring, 2);
  const Expander expander(plan);
  const TilePlan tiles = tile_plan(plan, expander, {.programs = 5});
  for (const TileTable& table : tiles.tables) {
    std::map<std::string, int> waits;
    for (const TileWait& wait : table.waits) {
      const std::string name = expander.counter_name(static_cast<int>(wait.counter), 0);
      ++waits[name.substr(0, name.find('['))];
    }
    EXPECT_EQ(waits["credit"], 5);
    EXPECT_EQ(waits["full"], 6);
    EXPECT_EQ(waits["used"], 1);
    ASSERT_EQ(table.late.size(), 1u);
    EXPECT_EQ(expander.counter_name(static_cast<int>(table.late[0].counter), 0), "used[0]");
    EXPECT_EQ(table.late[0].by_program, (std::vector<std::int64_t>{1, 2, 1, 1, 1}));
    EXPECT_EQ(table.signals.size(), 6u + 1u) << "full of 6 tiles, and the credit";
  }
}

TEST(TileTable, AFailureNamesRankPeerAndTile) {
  const Plan plan = summed(SpaceKind::reduce_scatter, Route::ring, 2);
  const Expander expander(plan);
  const TilePlan tiles = tile_plan(plan, expander, {});
  for (int i = 0; i < tiles.tables[1].tiles; ++i) {
    const TileLane& lane = tiles.tables[1].lanes[at(i)];
    if (lane.sources == 0) continue;
    const std::string said = describe(plan, expander, tiles, {1, i, 0, 0, 2.5});
    EXPECT_EQ(said.find("rank 1 waited 2.5 s for full["), 0u) << said;
    EXPECT_NE(said.find("from rank 0, for tile "), std::string::npos) << said;
    return;
  }
  FAIL() << "no tile adds anything";
}

TEST(TileTable, RefusesWhatAKernelCannotMake) {
  const Producer with_bias = gemm({.m = 64, .n = 96, .k = 16, .tile = {16, 32}, .bias = true});
  EXPECT_NE(refusal_of(build(with_bias, keep())).find("has a bias"), std::string::npos);
  const Mesh mesh({{"tp", 2}});
  const Producer plain = gemm({.m = 64, .n = 96, .k = 16, .tile = {16, 32}});
  EXPECT_NE(refusal_of(build(all_gather(mesh, "tp"), plain)), "");
  EXPECT_NE(refusal_of(build(plain, reduce_scatter(mesh, "tp", {.wire = Dtype::bf16}))).find("one type"),
            std::string::npos);
  EXPECT_NE(refusal_of(build(plain, reduce_scatter(mesh, "tp", {.wire = Dtype::int8}))).find("int8"),
            std::string::npos);
  EXPECT_EQ(refusal_of(build(plain, keep())), "");
}

}  // namespace
}  // namespace weft
