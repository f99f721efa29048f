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
      // Peers are paired in the order of sending: r + 1 with r + 2, r + 3 with r.
      for (const int first : {r + 1, r + 3})
        apart += std::abs(ceil_div(rows[at(first % 4)], 128) - ceil_div(rows[at((first + 1) % 4)], 128)) * 16;
      EXPECT_EQ(made, needed + apart) << "rank " << r;
      EXPECT_LE(*most - *least, 4) << "rank " << r;  // a tile of every column that a group has begun, in pairs
    }
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
