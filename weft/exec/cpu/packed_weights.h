// The columns of the weights of a gemm, or of a gemv of many rows, packed once per run and shared by all tiles that
// need them. Weights may change between runs, so whoever first needs a tile's columns in a run packs them; no thread
// ever waits for another: one that finds them half packed makes its tile from the weights as they are. Memory is
// allotted when the op is compiled.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/kernel/gemm/gemm.h"

namespace weft {

class PackedWeights {
 public:
  // Columns [lo, hi) that a tile spans, and how many tiles do.
  struct Span {
    std::int64_t lo, hi;
    std::int64_t tiles;
  };

  // Spans that overlap, or that one tile alone needs, are left out, and so is everything beyond `most_bytes`.
  PackedWeights(const GemmKernel& kernel, std::vector<Span> spans, std::int64_t most_bytes);

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
    std::int64_t offset;               // in data_
    std::atomic<std::uint64_t> state;  // 2 * (run + 1): being packed; one more: packed
  };

  const GemmKernel& kernel_;
  std::uint64_t run_ = 0;
  std::vector<std::int32_t> panel_at_;  // lo -> panel, -1: none
  std::unique_ptr<Panel[]> panels_;
  std::unique_ptr<float[], void (*)(void*)> data_{nullptr, nullptr};
};

}  // namespace weft
