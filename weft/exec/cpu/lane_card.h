// What a lane touches: its box and the addresses of its pieces, reckoned from boxes, tiles and layouts. None of it
// changes from run to run but the copy of a buffer that a run uses, and the caller's pointers; so for an op of few
// lanes it is reckoned once, when the op is made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/exec/bindings.h"
#include "weft/exec/cpu/memory.h"
#include "weft/plan/program.h"

namespace weft {

// The part of one piece that one lane touches.
struct Place {
  std::int32_t rank = 0, buffer = 0;
  const BufferLayout* layout = nullptr;
  std::byte* base = nullptr;  // of copy 0, unless the run has memory of the caller's for the buffer; null: it has
  std::int64_t corner = 0;    // bytes from there to the first element
  std::int64_t ld = 0;
  Dtype dtype = Dtype::f32;

  // The strip that begins `at` elements from the corner: not 0 only where a box has more than two dimensions, and then
  // the buffer is not packed.
  ConstStrip strip(const Bindings& bindings, std::uint64_t run, const std::array<std::int64_t, kMaxDims>& at) const {
    std::int64_t skip = 0;
    for (int d = 0; d < layout->dims - 2; ++d) skip += at[d] * layout->stride[d];
    return {first(bindings, run) + row_bytes(dtype, skip), ld, dtype};
  }
  ConstStrip strip(const Bindings& bindings, std::uint64_t run) const { return {first(bindings, run), ld, dtype}; }

 private:
  const std::byte* first(const Bindings& bindings, std::uint64_t run) const {
    if (const void* given = bindings.buffers[buffer]; base == nullptr || given != nullptr)
      return static_cast<const std::byte*>(given) + corner;
    const auto depth = static_cast<std::uint64_t>(layout->depth);
    return base + corner + (depth == 1 ? 0 : run % depth * layout->copy_bytes);
  }
};

// Its places stand in LaneCards or a Workbench, in the order of the program's pieces.
struct LaneCard {
  Box box;  // logical, shortened to the rows that count
  std::int64_t lane = 0, rows = 0;
  int row_dim = 0;  // dimensions from here to the last but one are rows of one strip in all places
  std::span<const Place> reads, sources, targets;
};

// Writes a lane's card. `places` must have room for its pieces: it is cleared, and never grows beyond its capacity.
LaneCard card_of(const Memory& memory, const Program& program, const Action& action, std::int64_t lane,
                 const Counts& counts, std::vector<Place>* places);

// The most pieces that any action has.
std::size_t most_pieces(const Program& program);

// The cards of all lanes, for runs of all rows; none where there are too many lanes for it to pay.
class LaneCards {
 public:
  LaneCards(const Memory& memory, const Program& program);

  bool empty() const { return cards_.empty(); }
  const LaneCard& at(std::size_t action, std::int64_t lane) const {
    return cards_[static_cast<std::size_t>(first_[action] + lane)];
  }

 private:
  std::vector<std::int64_t> first_;  // card of each action
  std::vector<LaneCard> cards_;
  std::vector<Place> places_;
};

}  // namespace weft
