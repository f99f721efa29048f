#include "weft/exec/cpu/packed_weights.h"

#include <algorithm>
#include <cstdlib>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {

PackedWeights::PackedWeights(const GemmKernel& kernel, std::vector<Span> spans, std::int64_t most_bytes)
    : kernel_(kernel) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.lo < b.lo; });
  std::vector<Span> kept;
  std::int64_t floats = 0, end = 0;
  for (const Span& span : spans) {
    const std::int64_t more = (kernel.packed_floats(span.hi - span.lo) + 15) / 16 * 16;  // whole cache lines
    if (span.tiles < 2 || span.lo < end || (floats + more) * 4 > most_bytes) continue;
    kept.push_back(span);
    floats += more;
    end = span.hi;
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
  const std::uint64_t packing = 2 * (run_ + 1);
  std::uint64_t seen = panel.state.load(std::memory_order_acquire);  // pairs with the release below
  if (seen == packing + 1) return {data};
  if (seen == packing || !panel.state.compare_exchange_strong(seen, packing, std::memory_order_relaxed)) return {};
  kernel_.pack(hi - lo, b, data);
  panel.state.store(packing + 1, std::memory_order_release);
  return {data, true};
}

}  // namespace weft
