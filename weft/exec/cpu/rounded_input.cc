#include "weft/exec/cpu/rounded_input.h"

#include <utility>

namespace weft {

RoundedInput::RoundedInput(std::vector<TileSpan> spans, std::int64_t cols, std::int64_t most_bytes)
    : strips_(
          std::move(spans), [&](const TileSpan& span) { return most_rounded_bytes(span.hi - span.lo, cols); },
          most_bytes) {}

std::optional<RoundedRows> RoundedInput::get(std::int64_t lo, std::int64_t hi, const RoundedForm& form,
                                             const float* x) const {
  SharedPieces::Piece* strip = strips_.find(lo);
  if (strip == nullptr || hi > strip->hi) return {};
  const OncePerRun::Turn turn = strip->turn.look(run_);
  if (turn == OncePerRun::Turn::of_another || (turn == OncePerRun::Turn::made && strip->made_hi != hi)) return {};
  const RoundedRows rows = rounded_in(strip->memory, hi - lo, form);
  if (turn == OncePerRun::Turn::mine) {
    round_rows(form, 0, hi - lo, x, form.cols, rows);
    strip->made_hi = hi;
    strip->turn.made(run_);
  }
  return rows;
}

}  // namespace weft
