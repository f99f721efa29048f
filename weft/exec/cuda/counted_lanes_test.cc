// How much of a GPU lanes leave idle where a run's counts leave rows out (lane_table.h).
#include <algorithm>

#include <gtest/gtest.h>

#include "weft/exec/cuda/twin_test.h"

namespace weft {
namespace {

using testing_cuda::CudaCase;

// Tiles that clusters multiply, as the kernel decides it: both of a pair, or neither.
std::vector<std::int64_t> tiles_of_clusters(const LaneTable& table, const std::vector<std::int32_t>& counts,
                                            std::size_t clusters) {
  std::vector<std::int64_t> out(clusters);
  const auto has_rows = [&](int limit, int from) { return limit < 0 || counts[at(limit)] > from; };
  for (std::size_t i = 0; i < table.works.size(); ++i) {
    const DeviceWork &work = table.works[i], &other = table.works[i ^ 1];
    EXPECT_EQ(work.limit, other.pair_limit);
    EXPECT_EQ(work.limit_from, other.pair_from);
    const bool multiplies = has_rows(work.limit, work.limit_from) || has_rows(work.pair_limit, work.pair_from);
    out[i / 2 % clusters] += multiplies && work.product != 0;
  }
  return out;
}

// Rows for a peer, in whole tiles, come to 1024 of 2048; four ranks, 16 columns of tiles.
TEST(CountedLanes, PeersArePairedSoThatLittleIsMultipliedForNothing) {
  const CudaCase c{"", 8192, 4096, 8, {128, 256}, 4, Route::direct, WeightLayout::nk, SpaceKind::all_to_all};
  const Plan plan = testing_cuda::plan_of(c);
  const DevicePlan device = device_plan(plan, Expander(plan));
  for (const std::vector<std::int64_t>& rows :
       {std::vector<std::int64_t>{1000, 1010, 1020, 1030}, std::vector<std::int64_t>{900, 1024, 1, 1500}}) {
    const auto counts = device_counts({-1, rows}, 4);
    for (int r = 0; r < 4; ++r) {
      const auto tiles = tiles_of_clusters(device.tables[at(r)], counts, 16);
      const auto [least, most] = std::minmax_element(tiles.begin(), tiles.end());
      std::int64_t made = 0, needed = 0, apart = 0;
      for (const std::int64_t of_cluster : tiles) made += of_cluster;
      for (int s = 0; s < 4; ++s) needed += ceil_div(rows[at(s)], 128) * 16;
      // Peers are paired in the order of sending, r + 1 with r + 2; r + 3 has no other, and what stays is made last.
      const auto tile_rows = [&](int rank) { return ceil_div(rows[at(rank % 4)], 128); };
      apart += std::abs(tile_rows(r + 1) - tile_rows(r + 2)) * 16;
      apart += (tile_rows(r + 3) % 2 + tile_rows(r) % 2) * 16;
      EXPECT_EQ(made, needed + apart) << "rank " << r;
      EXPECT_LE(*most - *least, 4) << "rank " << r;
    }
  }
}

// A link that got its first tile when those of all peers before are made would end as much later.
TEST(CountedLanes, EveryPeerGetsTilesInEveryTurnAndWhatStaysIsMadeLast) {
  const CudaCase c{"", 8192, 1024, 8, {128, 256}, 8, Route::direct, WeightLayout::nk, SpaceKind::all_to_all};
  const Plan plan = testing_cuda::plan_of(c);
  const DevicePlan device = device_plan(plan, Expander(plan));
  for (int r = 0; r < 8; ++r) {
    const LaneTable& table = device.tables[at(r)];
    std::vector<int> peers;  // as their turns begin
    for (const DeviceLane& lane : table.lanes) {
      const int peer = table.targets[at(lane.first_target)].rank;
      if (std::find(peers.end() - std::min<std::ptrdiff_t>(std::ssize(peers), 2), peers.end(), peer) == peers.end())
        peers.push_back(peer);
    }
    std::vector<int> expected;  // 8 rows of tiles for each, two at a time
    for (int turn = 0; turn < 4; ++turn)
      for (int away = 1; away < 8; ++away) expected.push_back((r + away) % 8);
    expected.push_back(r);
    EXPECT_EQ(peers, expected) << "rank " << r;
  }
}

// One peer has no partner: its tiles are paired among themselves.
TEST(CountedLanes, AnOddNumberOfPeersIsCoveredToo) {
  const CudaCase c{"", 900, 264, 16, {128, 256}, 3, Route::direct, WeightLayout::nk, SpaceKind::all_to_all};
  const Plan plan = testing_cuda::plan_of(c);
  const DevicePlan device = device_plan(plan, Expander(plan));
  for (const LaneTable& table : device.tables) {
    std::int64_t area = 0;
    for (std::size_t i = 0; i < table.lanes.size(); ++i) {
      EXPECT_EQ(table.lanes[i].col, table.lanes[i ^ 1].col);
      area += std::int64_t{table.lanes[i].rows} * table.lanes[i].cols;
    }
    EXPECT_EQ(area, c.m * c.n);
  }
  for (const int clusters : {1, 16}) EXPECT_NO_THROW(require_ending(plan, device, clusters));
}

}  // namespace
}  // namespace weft
