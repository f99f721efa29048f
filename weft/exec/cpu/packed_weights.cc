#include "weft/exec/cpu/packed_weights.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {

PackedWeights::PackedWeights(const GemmKernel& kernel, std::vector<TileSpan> spans, std::int64_t most_bytes)
    : kernel_(kernel) {
  std::vector<TileSpan> kept;
  std::int64_t floats = 0;
  for (const TileSpan& span : shared_spans(std::move(spans))) {
    const std::int64_t more = (kernel.packed_floats(span.hi - span.lo) + 15) / 16 * 16;  // whole cache lines
    if ((floats + more) * 4 > most_bytes) continue;
    kept.push_back(span);
    floats += more;
  }
  if (kept.empty()) return;
  const auto bytes = num(std::max<std::int64_t>(floats, 16)) * sizeof(float);
  data_ = {static_cast<float*>(std::aligned_alloc(64, bytes)), std::free};
  if (data_ == nullptr) fail(Code::no_memory, "no memory for {} bytes of packed weights", bytes);
  panels_ = std::make_unique<Panel[]>(kept.size());
  panel_at_.assign(num(kept.back().lo) + 1, -1);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    panels_[i].hi = kept[i].hi;
    panels_[i].offset = offset;
    panel_at_[at(kept[i].lo)] = static_cast<std::int32_t>(i);
    offset += (kernel.packed_floats(kept[i].hi - kept[i].lo) + 15) / 16 * 16;
  }
}

PackedWeights::Columns PackedWeights::get(std::int64_t lo, std::int64_t hi, const void* b) const {
  if (lo >= std::ssize(panel_at_)) return {};
  const std::int32_t index = panel_at_[at(lo)];
  if (index < 0 || panels_[index].hi != hi) return {};
  Panel& panel = panels_[index];
  float* data = data_.get() + panel.offset;
  const OncePerRun::Turn turn = panel.turn.look(run_);
  if (turn == OncePerRun::Turn::made) return {data};
  if (turn == OncePerRun::Turn::of_another) return {};
  kernel_.pack(hi - lo, b, data);
  panel.turn.made(run_);
  return {data, true};
}

}  // namespace weft
