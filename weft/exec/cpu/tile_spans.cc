#include "weft/exec/cpu/tile_spans.h"

#include <algorithm>
#include <map>
#include <utility>

namespace weft {

std::vector<TileSpan> spans_of(int dimension, int producer, const Program& program) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> tiles;
  for (const Action& action : program.actions) {
    if (action.producer != producer || action.kind != ActionKind::step || action.box.empty()) continue;
    const Grid grid = grid_of(action.box, action.tile);
    const bool rows = dimension == 0;
    for (std::int64_t i = 0; i < (rows ? grid.rows : grid.cols); ++i) {
      const Box box = lane_box(action.box, action.tile, rows ? i * grid.cols : i);
      tiles[{box.lo[dimension], box.hi[dimension]}] += rows ? grid.cols : grid.rows;
    }
  }
  std::vector<TileSpan> spans;
  for (const auto& [span, count] : tiles) spans.push_back({span.first, span.second, count});
  return spans;
}

std::vector<TileSpan> shared_spans(std::vector<TileSpan> spans) {
  std::sort(spans.begin(), spans.end(), [](const TileSpan& a, const TileSpan& b) { return a.lo < b.lo; });
  std::vector<TileSpan> kept;
  for (const TileSpan& span : spans)
    if (span.tiles > 1 && (kept.empty() || span.lo >= kept.back().hi)) kept.push_back(span);
  return kept;
}

}  // namespace weft
