// The rows or the columns that tiles of a producer span: what several tiles share is made once for all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/program.h"

namespace weft {

struct TileSpan {
  std::int64_t lo, hi;
  std::int64_t tiles;  // that span just these
};

// Dimension 0: rows, 1: columns; of the producer's steps, by lo.
std::vector<TileSpan> spans_of(int dimension, int producer, const Program& program);

// Those worth sharing: that several tiles have and no earlier one overlaps.
std::vector<TileSpan> shared_spans(std::vector<TileSpan> spans);

}  // namespace weft
