// The columns of the weights of a gemm, or of a gemv of many rows, packed once per run and shared by all tiles that
// need them. Weights may change between runs, so whoever first needs a tile's columns in a run packs them; no thread
// ever waits for another: one that finds them half packed makes its tile from the weights as they are. Memory is
// allotted when the op is compiled.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/exec/cpu/shared_pieces.h"
#include "weft/kernel/gemm/gemm.h"

namespace weft {

class PackedWeights {
 public:
  // Spans of columns, as in SharedPieces.
  PackedWeights(const GemmKernel& kernel, std::vector<TileSpan> spans, std::int64_t most_bytes);

  void begin(std::uint64_t run) { run_ = run; }  // before any thread asks

  struct Columns {
    const float* data = nullptr;  // null: the caller should use b itself
    bool fresh = false;           // packed by this call: those behind them will be, too
  };
  // The packed columns of `b`, which points at column lo.
  Columns get(std::int64_t lo, std::int64_t hi, const void* b) const;

 private:
  const GemmKernel& kernel_;
  std::uint64_t run_ = 0;
  SharedPieces panels_;
};

}  // namespace weft
