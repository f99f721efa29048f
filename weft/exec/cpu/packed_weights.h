// The columns of the weights of a gemm, or of a gemv of many rows, packed once per run and shared by all tiles that
// need them. Weights may change between runs, so whoever first needs a tile's columns in a run packs them; no thread
// ever waits for another: one that finds them half packed makes its tile from the weights as they are. Memory is
// allotted when the op is compiled.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/exec/cpu/once_per_run.h"
#include "weft/exec/cpu/tile_spans.h"
#include "weft/kernel/gemm/gemm.h"

namespace weft {

class PackedWeights {
 public:
  // Spans of columns. Those that overlap, or that one tile alone needs, are left out, and so is everything beyond
  // `most_bytes`.
  PackedWeights(const GemmKernel& kernel, std::vector<TileSpan> spans, std::int64_t most_bytes);

  void begin(std::uint64_t run) { run_ = run; }  // before any thread asks

  struct Columns {
    const float* data = nullptr;  // null: the caller should use b itself
    bool fresh = false;           // packed by this call: those behind them will be, too
  };
  // The packed columns of `b`, which points at column lo.
  Columns get(std::int64_t lo, std::int64_t hi, const void* b) const;

 private:
  struct Panel {
    std::int64_t hi;
    std::int64_t offset;  // in data_
    OncePerRun turn;
  };

  const GemmKernel& kernel_;
  std::uint64_t run_ = 0;
  std::vector<std::int32_t> panel_at_;  // lo -> panel, -1: none
  std::unique_ptr<Panel[]> panels_;
  std::unique_ptr<float[], void (*)(void*)> data_{nullptr, nullptr};
};

}  // namespace weft
