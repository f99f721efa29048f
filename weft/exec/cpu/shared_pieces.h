// Memory for what the tiles of a span share, made once per run by whoever first needs it: packed columns of weights,
// rounded rows of x. Allotted when the op is compiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "weft/exec/cpu/once_per_run.h"
#include "weft/exec/cpu/tile_spans.h"

namespace weft {

class SharedPieces {
 public:
  struct Piece {
    std::int64_t hi = 0;
    std::byte* memory = nullptr;  // 64-byte aligned
    std::int64_t made_hi = 0;     // in this run: the last rows of a span may not count. Its maker's to write
    OncePerRun turn;
  };

  // Spans that overlap, or that one tile alone needs, are left out, and so is everything beyond `most_bytes`. bytes_of
  // gives whole lines of 64.
  SharedPieces(std::vector<TileSpan> spans, const std::function<std::size_t(const TileSpan&)>& bytes_of,
               std::int64_t most_bytes);

  Piece* find(std::int64_t lo) const;  // null: none begins there

 private:
  std::vector<std::int32_t> piece_at_;  // lo -> piece, -1: none
  std::unique_ptr<Piece[]> pieces_;
  std::unique_ptr<std::byte, void (*)(void*)> memory_{nullptr, nullptr};
};

}  // namespace weft
