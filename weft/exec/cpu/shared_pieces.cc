#include "weft/exec/cpu/shared_pieces.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {

SharedPieces::SharedPieces(std::vector<TileSpan> spans, const std::function<std::size_t(const TileSpan&)>& bytes_of,
                           std::int64_t most_bytes) {
  std::vector<TileSpan> kept;
  std::size_t bytes = 0;
  for (const TileSpan& span : shared_spans(std::move(spans))) {
    if (bytes + bytes_of(span) > num(most_bytes)) continue;
    kept.push_back(span);
    bytes += bytes_of(span);
  }
  if (kept.empty()) return;
  memory_ = {static_cast<std::byte*>(std::aligned_alloc(64, std::max<std::size_t>(bytes, 64))), std::free};
  if (memory_ == nullptr) fail(Code::no_memory, "no memory for {} bytes that tiles share", bytes);
  pieces_ = std::make_unique<Piece[]>(kept.size());
  piece_at_.assign(num(kept.back().lo) + 1, -1);
  std::byte* next = memory_.get();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    pieces_[i].hi = kept[i].hi;
    pieces_[i].memory = next;
    piece_at_[at(kept[i].lo)] = static_cast<std::int32_t>(i);
    next += bytes_of(kept[i]);
  }
}

SharedPieces::Piece* SharedPieces::find(std::int64_t lo) const {
  if (lo >= std::ssize(piece_at_)) return nullptr;
  const std::int32_t index = piece_at_[at(lo)];
  return index < 0 ? nullptr : &pieces_[index];
}

}  // namespace weft
