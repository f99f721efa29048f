#include "weft/exec/cpu/lane_card.h"

#include <algorithm>

#include "weft/base/index.h"

namespace weft {
namespace {

// Beyond, a run takes so long that reckoning a lane is nothing beside it, and cards (some 300 bytes) would push the
// tiles out of the caches.
constexpr std::int64_t kMostCards = 1024;

Place place_of(const Memory& memory, const Piece& piece, const Box& box) {
  const BufferLayout& layout = memory.layouts[piece.rank].buffers[piece.buffer];
  Place place;
  place.rank = piece.rank;
  place.buffer = piece.buffer;
  place.layout = &layout;
  place.base = layout.role == Role::input ? nullptr : memory.base[piece.rank] + layout.offset;
  place.corner = row_bytes(layout.dtype, layout.element(box.lo));
  place.ld = layout.row_stride();
  place.dtype = layout.dtype;
  return place;
}

// Rows of the dimension before follow at the same distance wherever a box spans the whole dimension after it.
int row_dim_of(const Box& box, std::span<const Place> places) {
  int d = box.dims - 2;
  const auto follow = [&](const Place& p) {
    return p.layout->block_rows == 0 && p.layout->stride[d - 1] == box.size(d) * p.layout->stride[d];
  };
  while (d > 0 && std::all_of(places.begin(), places.end(), follow)) --d;
  return d;
}

}  // namespace

LaneCard card_of(const Memory& memory, const Program& program, const Action& action, std::int64_t lane,
                 const Counts& counts, std::vector<Place>* places) {
  LaneCard card;
  card.lane = lane;
  places->clear();
  if (action.box.dims == 0) return card;
  card.box = lane_box(action.box, action.tile, lane);
  const std::int64_t limit = action.box.lo[0] + rows_that_count(action, counts);
  card.box.hi[0] = std::clamp(limit, card.box.lo[0], card.box.hi[0]);
  card.rows = card.box.size(0);
  if (card.rows == 0) return card;
  for (const Piece& piece : program.reads(action))
    places->push_back(place_of(memory, piece, lane_rows(piece.box, action, lane)));
  for (const Piece& piece : program.sources(action))
    places->push_back(place_of(memory, piece, lane_box(piece.box, action.tile, lane)));
  for (const Piece& piece : program.targets(action))
    places->push_back(place_of(memory, piece, lane_box(piece.box, action.tile, lane)));
  const std::span<const Place> all(*places);
  card.row_dim = row_dim_of(card.box, all);
  const auto reads = num(action.reads.size());
  const auto sources = num(action.sources.size());
  card.reads = all.first(reads);
  card.sources = all.subspan(reads, sources);
  card.targets = all.subspan(reads + sources);
  return card;
}

std::size_t most_pieces(const Program& program) {
  std::int64_t most = 0;
  for (const Action& action : program.actions)
    most = std::max<std::int64_t>(most, action.reads.size() + action.sources.size() + action.targets.size());
  return num(most);
}

LaneCards::LaneCards(const Memory& memory, const Program& program) {
  std::int64_t lanes = 0, pieces = 0;
  for (const Action& action : program.actions) {
    first_.push_back(lanes);
    lanes += action.lanes;
    pieces += action.lanes * (action.reads.size() + action.sources.size() + action.targets.size());
  }
  if (lanes > kMostCards || pieces > 4 * kMostCards) return;
  cards_.reserve(num(lanes));
  places_.reserve(num(pieces));  // never moves: cards point into it
  std::vector<Place> of_lane;
  for (const Action& action : program.actions)
    for (std::int64_t lane = 0; lane < action.lanes; ++lane) {
      LaneCard card = card_of(memory, program, action, lane, {}, &of_lane);
      const auto kept = [&](std::span<const Place> part) {
        const Place* first = places_.data() + places_.size();
        places_.insert(places_.end(), part.begin(), part.end());
        return std::span<const Place>(first, part.size());
      };
      card.reads = kept(card.reads);
      card.sources = kept(card.sources);
      card.targets = kept(card.targets);
      cards_.push_back(card);
    }
}

}  // namespace weft
