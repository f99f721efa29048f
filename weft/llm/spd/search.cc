#include "weft/llm/spd/search.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::size_t kSwapWidth = 4;  // moves looked at on either side

// From one mode of a block to the next on its hull.
struct Move {
  std::size_t block = 0;
  std::size_t step = 0;  // 0 for the first of its block
  BlockMode from, to;
  double saved_s = 0, loss = 0;

  double price() const { return loss / saved_s; }
};

// The moves of one block, dearer and dearer by second saved. Modes that save nothing are left out.
std::vector<Move> hull_moves(std::size_t block, std::vector<ModeChoice> choices) {
  std::vector<Move> moves;
  ModeChoice at;  // sync
  while (true) {
    const ModeChoice* best = nullptr;
    for (const ModeChoice& next : choices) {
      if (next.saved_s <= at.saved_s) continue;
      const auto price = [&](const ModeChoice& c) { return (c.loss - at.loss) / (c.saved_s - at.saved_s); };
      if (best == nullptr || price(next) < price(*best)) best = &next;
    }
    if (best == nullptr) return moves;
    moves.push_back({block, moves.size(), at.mode, best->mode, best->saved_s - at.saved_s, best->loss - at.loss});
    at = *best;
  }
}

std::vector<Move> sorted_moves(const SearchInput& input) {
  std::vector<Move> moves;
  for (std::size_t block = 0; block < input.blocks.size(); ++block)
    for (const Move& move : hull_moves(block, input.blocks[block])) moves.push_back(move);
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) { return a.price() < b.price(); });
  return moves;
}

class Search {
 public:
  Search(const SearchInput& input, const MeasuredLoss& measure)
      : input_(input), measure_(measure), moves_(sorted_moves(input)), made_(moves_.size(), false) {}

  SearchResult run() {
    bisect();
    extend();
    while (swap()) extend();
    return result();
  }

 private:
  std::vector<BlockMode> modes_of(const std::vector<bool>& made) const {
    std::vector<BlockMode> modes(input_.blocks.size());
    std::vector<std::size_t> steps(input_.blocks.size(), 0);
    for (std::size_t m = 0; m < moves_.size(); ++m) {
      const Move& move = moves_[m];
      if (!made[m] || move.step < steps[move.block]) continue;
      steps[move.block] = move.step;
      modes[move.block] = move.to;
    }
    return modes;
  }

  bool spent() const { return measurements_ >= input_.most_measurements; }

  // The loss, or none where the budget is spent.
  std::optional<double> try_out(const std::vector<bool>& made) {
    if (spent()) return std::nullopt;
    ++measurements_;
    return measure_(modes_of(made));
  }

  void accept(std::vector<bool> made, double loss) {
    made_ = std::move(made);
    loss_ = loss;
  }

  void bisect() {
    std::size_t good = 0, bad = moves_.size() + 1;
    while (bad - good > 1) {
      const std::size_t middle = (good + bad) / 2;
      std::vector<bool> made(moves_.size(), false);
      std::fill_n(made.begin(), middle, true);
      const auto loss = try_out(made);
      if (!loss) return;
      if (*loss <= input_.max_loss)
        good = middle, accept(std::move(made), *loss);
      else
        bad = middle;
    }
  }

  // Whether the block's moves before this one are made, and none after it.
  bool is_next(std::size_t m) const {
    if (made_[m]) return false;
    for (std::size_t other = 0; other < moves_.size(); ++other)
      if (moves_[other].block == moves_[m].block && made_[other] != (moves_[other].step < moves_[m].step)) return false;
    return true;
  }
  bool is_last_made(std::size_t m) const {
    if (!made_[m]) return false;
    for (std::size_t other = 0; other < moves_.size(); ++other)
      if (moves_[other].block == moves_[m].block && moves_[other].step > moves_[m].step && made_[other]) return false;
    return true;
  }

  void extend() {
    for (std::size_t m = 0; m < moves_.size(); ++m) {
      if (!is_next(m)) continue;
      std::vector<bool> made = made_;
      made[m] = true;
      const auto loss = try_out(made);
      if (!loss) return;
      if (*loss <= input_.max_loss) accept(std::move(made), *loss);
    }
  }

  bool swap() {
    std::vector<std::size_t> out, in;
    for (std::size_t m = moves_.size(); m-- > 0 && out.size() < kSwapWidth;)
      if (is_last_made(m)) out.push_back(m);
    for (std::size_t m = 0; m < moves_.size() && in.size() < kSwapWidth; ++m)
      if (is_next(m)) in.push_back(m);
    for (const std::size_t gone : out)
      for (const std::size_t come : in) {
        const double more = moves_[come].saved_s - moves_[gone].saved_s;
        if (moves_[come].block == moves_[gone].block || more < -1e-12) continue;
        std::vector<bool> made = made_;
        made[gone] = false, made[come] = true;
        if (std::find(seen_.begin(), seen_.end(), made) != seen_.end()) continue;
        seen_.push_back(made);
        const auto loss = try_out(made);
        if (!loss) return false;
        if (*loss > input_.max_loss || (more <= 1e-12 && *loss >= loss_)) continue;
        accept(std::move(made), *loss);
        return true;
      }
    return false;
  }

  SearchResult result() const {
    SearchResult out{.modes = modes_of(made_), .loss = loss_, .measurements = measurements_};
    std::vector<bool> made(moves_.size(), false);
    out.trail.push_back(modes_of(made));
    for (std::size_t m = 0; m < moves_.size(); ++m) {
      if (!made_[m]) continue;
      made[m] = true;
      out.saved_s += moves_[m].saved_s;
      out.trail.push_back(modes_of(made));
    }
    return out;
  }

  const SearchInput& input_;
  const MeasuredLoss& measure_;
  std::vector<Move> moves_;
  std::vector<bool> made_;
  double loss_ = 0;
  int measurements_ = 0;
  std::vector<std::vector<bool>> seen_;  // swaps that were tried
};

}  // namespace

SearchResult search_modes(const SearchInput& input, const MeasuredLoss& measure) {
  if (!(input.max_loss >= 0)) bad_input("a loss of at most {}; use 0 or more", input.max_loss);
  return Search(input, measure).run();
}

Confirmed confirm(std::span<const std::vector<BlockMode>> trail, double max_loss, const MeasuredLoss& measure) {
  Confirmed out;
  std::size_t good = 0, bad = trail.size();
  for (std::size_t at = trail.size() - 1; bad - good > 1; at = (good + bad) / 2) {
    const double loss = measure(trail[at]);
    ++out.measurements;
    if (loss <= max_loss)
      good = at, out.loss = loss;
    else
      bad = at;
  }
  out.at = good;
  return out;
}

}  // namespace weft
