// Rows of x as products with weights in blocks take them, rounded once per run and shared by the tiles of all columns:
// x may change between runs, so whoever first needs a tile's rows in a run rounds them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/exec/cpu/shared_pieces.h"
#include "weft/kernel/quant/rounded.h"

namespace weft {

class RoundedInput {
 public:
  // Spans of rows that tiles have, each of `cols` columns of x; as in SharedPieces.
  RoundedInput(std::vector<TileSpan> spans, std::int64_t cols, std::int64_t most_bytes);

  void begin(std::uint64_t run) { run_ = run; }  // before any thread asks

  // Rows lo to hi of x, which points at the first; hi may lie before the end of the span. Nothing: the caller rounds
  // them for itself.
  std::optional<RoundedRows> get(std::int64_t lo, std::int64_t hi, const RoundedForm& form, const float* x) const;

 private:
  std::uint64_t run_ = 0;
  SharedPieces strips_;
};

}  // namespace weft
