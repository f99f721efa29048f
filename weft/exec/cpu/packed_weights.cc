#include "weft/exec/cpu/packed_weights.h"

#include <utility>

#include "weft/base/index.h"

namespace weft {

PackedWeights::PackedWeights(const GemmKernel& kernel, std::vector<TileSpan> spans, std::int64_t most_bytes)
    : kernel_(kernel),
      panels_(
          std::move(spans),
          [&](const TileSpan& span) { return num((kernel.packed_floats(span.hi - span.lo) + 15) / 16 * 64); },
          most_bytes) {}

PackedWeights::Columns PackedWeights::get(std::int64_t lo, std::int64_t hi, const void* b) const {
  SharedPieces::Piece* panel = panels_.find(lo);
  if (panel == nullptr || panel->hi != hi) return {};
  auto* data = reinterpret_cast<float*>(panel->memory);
  const OncePerRun::Turn turn = panel->turn.look(run_);
  if (turn == OncePerRun::Turn::made) return {data};
  if (turn == OncePerRun::Turn::of_another) return {};
  kernel_.pack(hi - lo, b, data);
  panel->turn.made(run_);
  return {data, true};
}

}  // namespace weft
