#include "weft/kernel/quant/quant_tile.h"

#include <algorithm>

#include "weft/base/quant/blocks.h"
#include "weft/kernel/quant/variant.h"

namespace weft {
namespace {

// Rows of x up to which w is read in one go; beyond, as many rows of w at a time as stay in the second-level cache
// while all rows of x pass by, four of them in the first. From kUnpackFrom on it pays to unpack them into a panel.
constexpr std::int64_t kOnePass = 4, kCachedRows = 64, kUnpackFrom = 16;

bool unpacks(std::int64_t m) { return m >= kUnpackFrom && quant_variant().panels.dot != nullptr; }

}  // namespace

std::int64_t quant_tile_rows(std::int64_t m) {
  if (m <= kOnePass) return 0;
  return unpacks(m) ? quant_variant().panels.rows : kCachedRows;
}

std::size_t quant_tile_bytes(std::int64_t m, std::int64_t cols) {
  return unpacks(m) ? quant_variant().panels.bytes(most_rounded_parts(cols) / kStepParts) : 0;
}

void quant_tile(std::int64_t m, const QuantWeight& w, const RoundedRows& x, float* y, std::int64_t ldy,
                std::byte* memory) {
  const QuantVariant& best = quant_variant();
  const bool panels = unpacks(m);
  const std::int64_t most = quant_tile_rows(m), step = most == 0 ? w.rows : most;
  const std::int64_t bytes = row_bytes(w.dtype, w.ld);
  const std::int64_t begin = w.first / kPart, end = (w.first + w.cols + kPart - 1) / kPart;
  for (std::int64_t r = 0; r < w.rows; r += step) {
    const QuantRows rows{w.data + r * bytes, w.dtype, std::min(step, w.rows - r), bytes, begin, end};
    const QuantVectors vectors{m, x, y + r, ldy};
    panels ? best.panels.dot(rows, vectors, memory) : best.dot(rows, vectors);
  }
}

}  // namespace weft
