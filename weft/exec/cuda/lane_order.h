// In which order a GPU makes the tiles of a plan (lane_table.h), where the plan leaves that open.
#pragma once

#include "weft/exec/cuda/device_lane.h"

namespace weft {

// How much is taken of each peer in turn. device_plan() refuses what makes no sense.
struct LaneOrder {
  // Pairs of tile rows, of rows that all peers send at once. More of them read w less often (4: 3 % less time where the
  // link is fast), fewer wait less for a slow link.
  int gathered_rows = 2;
  // Columns of tiles, of sums that go straight to their owners; 0: one owner's after another's. In turn all links have
  // something to carry from the beginning, which those need that take as long as the product.
  int sent_cols = 0;
  // Columns of a part of a copy that is larger than a tile. Parts are copied side by side, and take their link in the
  // order in which they end; so with large ones the last tile of eight may go first, and who reads the first waits.
  int part_cols = kCudaTileCols;  // a multiple of kStripCols

  bool operator==(const LaneOrder&) const = default;
};

}  // namespace weft
