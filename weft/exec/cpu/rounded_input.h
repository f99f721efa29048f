// Rows of x as products with weights in blocks take them, rounded once per run and shared by the tiles of all columns:
// x may change between runs, so whoever first needs a tile's rows in a run rounds them. Memory is allotted when the op
// is compiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "weft/exec/cpu/once_per_run.h"
#include "weft/exec/cpu/tile_spans.h"
#include "weft/kernel/quant/rounded.h"

namespace weft {

class RoundedInput {
 public:
  // Spans of rows that tiles have, each of `cols` columns of x. Those that overlap, or that one tile alone needs, are
  // left out, and so is everything beyond `most_bytes`.
  RoundedInput(std::vector<TileSpan> spans, std::int64_t cols, std::int64_t most_bytes);

  void begin(std::uint64_t run) { run_ = run; }  // before any thread asks

  // Rows lo to hi of x, which points at the first; hi may lie before the end of the span. Nothing: the caller rounds
  // them for itself.
  std::optional<RoundedRows> get(std::int64_t lo, std::int64_t hi, const RoundedForm& form, const float* x) const;

 private:
  struct Strip {
    std::int64_t hi = 0;
    std::byte* memory = nullptr;
    std::int64_t made_hi = 0;  // of the run: the last of its rows may not count
    OncePerRun turn;
  };

  std::uint64_t run_ = 0;
  std::vector<std::int32_t> strip_at_;  // lo -> strip, -1: none
  std::unique_ptr<Strip[]> strips_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_{nullptr, nullptr};
};

}  // namespace weft
