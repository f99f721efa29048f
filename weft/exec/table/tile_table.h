// One rank's part of a plan as flat tables of numbers, for kernels that somebody else writes (weft.triton): one record
// per tile, in the order in which programs take them, with the counters it waits for, what is added to it, where it is
// stored, and the counters it raises. Addresses are offsets in the ranks' segments, which lie as the CPU's do
// (layout.h): whoever has the segments adds their bases.
//
//   program  what makes tiles one after another: of P programs on a rank, p takes the tiles p, p + P, p + 2 P, ...
//   opening  lanes of triggers that wait for nothing: done before the first tile, by program p those at p, p + P, ...
//   closing  all other lanes of triggers, dealt out in the same way once a program has made its tiles
//   late     signals of tiles that only closing lanes of the same rank wait for: a program raises them all at once when
//            it has made its tiles, and so pays for one release instead of one per tile
//
// A wait that an earlier lane of the same program has seen met is left out: counters only grow.
//
// Order. Tiles of a step are permuted: `group_rows` rows of tiles at a time, column by column, share columns of w in a
// cache. A plan promises to end for listed order and for triggers that fire as soon as they can, so an executor asks
// require_tiles_end whether these programs end.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/exec/layout.h"
#include "weft/plan/program.h"

namespace weft {

struct TileWait {
  std::int64_t counter;  // of the waiting rank
  std::int64_t at, total, lag;
};

struct TilePlace {
  std::int64_t rank;
  std::int64_t offset;      // of its first element, in bytes, in that rank's segment
  std::int64_t stride;      // elements from row to row
  std::int64_t copy_bytes;  // run e uses the copy at offset + e % depth * copy_bytes
  std::int64_t depth;
};

struct TileSignal {
  std::int64_t rank;
  std::int64_t counter;  // of that rank
  std::int64_t bytes;    // stored there by this lane, told by its first signal to that rank
};

// Ranges are of the table's arrays: first and how many.
struct TileLane {
  std::int32_t row = 0, col = 0, rows = 0, cols = 0;  // of the producer's output; 0 rows: no data
  std::int32_t first_wait = 0, waits = 0;
  std::int32_t first_source = 0, sources = 0;  // places
  std::int32_t first_target = 0, targets = 0;  // places
  std::int32_t first_signal = 0, signals = 0;
  std::int32_t action = 0, lane = 0;  // of the rank's Program
};

struct TileLate {
  std::int64_t counter;                  // of the same rank
  std::vector<std::int64_t> by_program;  // how often each raises it
};

struct TileTable {
  std::vector<TileLane> lanes;  // tiles, then opening, then closing
  int tiles = 0, opening = 0, closing = 0;
  std::vector<TileWait> waits;
  std::vector<TilePlace> places;
  std::vector<TileSignal> signals;
  std::vector<TileLate> late;
};

struct TileOptions {
  int programs = 1;    // of each rank
  int group_rows = 8;  // of tiles that share columns
};

// Tiles as the kernel must make them, and what the caller reads, in rows.
struct TilePlan {
  TileOptions options;
  std::array<std::int64_t, 2> tile{0, 0};
  Dtype dtype = Dtype::f32;  // of all that is stored
  int output = -1;           // buffer
  std::vector<Layout> layouts;
  std::vector<TileTable> tables;
};

// Of a plan that has been proved. Throws bad_input, with the remedy, where tiles of a kernel cannot be all it needs.
TilePlan tile_plan(const Plan& plan, const Expander& expander, const TileOptions& options);

// Throws bad_input where the programs get stuck within two runs: too few, or a route that needs triggers to fire
// between tiles.
void require_tiles_end(const Plan& plan, const Expander& expander, const TilePlan& tiles);

// A wait that was given up.
struct TileFailure {
  int rank = 0, lane = 0, wait = 0;  // of that rank's table, and of that lane
  std::int64_t seen = 0;             // updates of this run
  double seconds = 0;
};
// "rank 0 waited 1.0 s for full[3] from rank 1, tile 3 [0:16, 48:64] of step 1 of rank 0 (...): saw 0 of 1 updates".
std::string describe(const Plan& plan, const Expander& expander, const TilePlan& tiles, const TileFailure& failure);

}  // namespace weft
