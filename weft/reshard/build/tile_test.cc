// Tiles of any box: no larger than asked where two dimensions allow it, and about even.
#include "weft/reshard/build/tile.h"

#include <gtest/gtest.h>

#include "weft/plan/program.h"
#include "weft/reshard/cases_test.h"

namespace weft::resharding {
namespace {

TEST(ReshardTile, AnyBoxIsCutIntoPiecesOfAtMostThatManyBytes) {
  Random random(3);
  for (int round = 0; round < 1000; ++round) {
    const Box box = whole(random_shape(random, pick(random, 1, 3)));
    const std::int64_t asked = pick(random, 1, 1 << 16);
    const auto tile = tile_for(box, Dtype::f32, asked);
    std::int64_t inner = 4;  // bytes that no tile can part
    for (int d = 2; d < box.dims; ++d) inner *= box.size(d);
    const Grid grid = grid_of(box, tile);
    std::int64_t volume = 0, most = 0, least = box.volume();
    for (std::int64_t lane = 0; lane < grid.rows * grid.cols; ++lane) {
      const std::int64_t piece = lane_box(box, tile, lane).volume();
      volume += piece, most = std::max(most, piece), least = std::min(least, piece);
    }
    EXPECT_EQ(volume, box.volume()) << to_string(box);
    EXPECT_LE(most * 4, std::max(asked, inner)) << to_string(box) << " in pieces of " << asked;
    EXPECT_GT(least, 0);
    // Fewer pieces would be too large.
    const std::int64_t rows = grid.rows, cols = grid.cols;
    if (rows > 1 && cols == 1 && tile[1] == 0) {
      const std::int64_t row = box.volume() / box.size(0) * 4;
      EXPECT_GT(ceil_div(box.size(0), rows - 1) * row, asked);
    }
  }
}

// Against the formula it comes from, over every number of tiles.
TEST(ReshardTile, TheBestIsNearTheShortestPipeline) {
  for (const int hops : {2, 3, 8, 32})
    for (const double rate : {1e8, 1e9, 1e10})
      for (const double message : {1e-6, 20e-6}) {
        const TileQuestion question{std::int64_t{1} << 24, hops, rate, message};
        const auto takes = [&](double tiles) {
          return (tiles + hops - 1) * (static_cast<double>(question.bytes) / tiles / rate + message);
        };
        double shortest = takes(1);
        for (int tiles = 2; tiles <= 1 << 12; ++tiles) shortest = std::min(shortest, takes(tiles));
        const double chosen =
            takes(static_cast<double>(question.bytes) / static_cast<double>(best_tile_bytes(question)));
        EXPECT_LE(chosen, 1.8 * shortest) << hops << " hops at " << rate << ", " << message;
      }
}

}  // namespace
}  // namespace weft::resharding
