#include "weft/kernel/quant/quant_tile.h"

#include <algorithm>

#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/kernel/quant/variant.h"

namespace weft {
namespace {

constexpr std::int64_t kTilePartBytes = 32 + 2 * 4 + 4 + 4;  // of a part of a rounded row: bytes, offsets, scale, sum
constexpr std::int64_t kLargestBlock = 256;
constexpr std::int64_t kUnpackFrom = 16;  // rows of x for which it pays to unpack w into panels
constexpr std::int64_t kCachedRows = 64;  // of w, which stay in the second-level cache while all rows of x pass by

std::int64_t steps_of_parts(std::int64_t columns) {
  const std::int64_t parts = (columns + kPart - 1) / kPart;
  return (parts + kStepParts - 1) / kStepParts * kStepParts;
}

}  // namespace

std::size_t quant_tile_bytes(std::int64_t m, std::int64_t cols) {
  const std::int64_t parts = steps_of_parts(cols + kLargestBlock - 1);
  const QuantPanels& panels = quant_variant().panels;
  const bool unpacks = m >= kUnpackFrom && panels.dot != nullptr;
  return num((m * parts * kTilePartBytes + 63) / 64 * 64) + (unpacks ? panels.bytes(parts / kStepParts) : 0);
}

void quant_tile(std::int64_t m, const QuantWeight& w, const float* x, std::int64_t ldx, float* y, std::int64_t ldy,
                std::byte* memory) {
  const QuantVariant& best = quant_variant();
  RoundedRows all{.parts = steps_of_parts(w.first + w.cols)};
  std::byte* panel = memory + (m * all.parts * kTilePartBytes + 63) / 64 * 64;
  all.bytes = reinterpret_cast<std::int8_t*>(memory), memory += m * all.parts * 32;
  all.offsets = reinterpret_cast<std::int32_t*>(memory), memory += m * all.parts * 8;
  all.scales = reinterpret_cast<float*>(memory), memory += m * all.parts * 4;
  all.sums = reinterpret_cast<float*>(memory);
  for (std::int64_t i = 0; i < m; ++i) {
    const std::int64_t part = i * all.parts;
    best.round({x + i * ldx, w.cols, w.first, w.dtype},
               {all.parts, all.bytes + part * 32, all.offsets + part * 2, all.scales + part, all.sums + part});
  }
  const std::int64_t bytes = row_bytes(w.dtype, w.ld);
  const std::int64_t begin = w.first / kPart, end = (w.first + w.cols + kPart - 1) / kPart;
  const bool unpacks = m >= kUnpackFrom && best.panels.dot != nullptr;
  const std::int64_t step = unpacks ? best.panels.rows : kCachedRows;
  for (std::int64_t r = 0; r < w.rows; r += step) {
    const QuantRows rows{w.data + r * bytes, w.dtype, std::min(step, w.rows - r), bytes, begin, end};
    const QuantVectors vectors{m, all, y + r, ldy};
    unpacks ? best.panels.dot(rows, vectors, panel) : best.dot(rows, vectors);
  }
}

}  // namespace weft
