// How finely a chunk is cut. A chain of hops works as a pipeline of tiles: h hops of K tiles take as long as K + h - 1
// tiles do, and every tile costs a message beside its bytes. Lanes of a plan cut dimensions 0 and 1.
#pragma once

#include <array>
#include <cstdint>

#include "weft/base/dtype.h"
#include "weft/mesh/box.h"

namespace weft::resharding {

struct TileQuestion {
  std::int64_t bytes = 0;  // of the chunk
  int hops = 1;            // of its longest path
  double bytes_per_s = 0;  // of its slowest hop
  double message_s = 0;
};

// The tile bytes that make the pipeline shortest, within what a message should hold.
std::int64_t best_tile_bytes(const TileQuestion& question);

// The tile that cuts a box of elements into about equal pieces of at most that many bytes, where two dimensions allow
// it.
std::array<std::int64_t, 2> tile_for(const Box& box, Dtype dtype, std::int64_t tile_bytes);

}  // namespace weft::resharding
