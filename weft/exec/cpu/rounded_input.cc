#include "weft/exec/cpu/rounded_input.h"

#include <cstdlib>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {

RoundedInput::RoundedInput(std::vector<TileSpan> spans, std::int64_t cols, std::int64_t most_bytes) {
  const auto bytes_of = [&](const TileSpan& span) { return most_rounded_bytes(span.hi - span.lo, cols); };
  std::vector<TileSpan> kept;
  std::size_t bytes = 0;
  for (const TileSpan& span : shared_spans(std::move(spans))) {
    if (bytes + bytes_of(span) > num(most_bytes)) continue;
    kept.push_back(span);
    bytes += bytes_of(span);
  }
  if (kept.empty()) return;
  memory_ = {static_cast<std::byte*>(std::aligned_alloc(64, bytes)), std::free};
  if (memory_ == nullptr) fail(Code::no_memory, "no memory for {} bytes of rounded rows", bytes);
  strips_ = std::make_unique<Strip[]>(kept.size());
  strip_at_.assign(num(kept.back().lo) + 1, -1);
  std::byte* at_byte = memory_.get();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    strips_[i].hi = kept[i].hi;
    strips_[i].memory = at_byte;
    strip_at_[at(kept[i].lo)] = static_cast<std::int32_t>(i);
    at_byte += bytes_of(kept[i]);
  }
}

std::optional<RoundedRows> RoundedInput::get(std::int64_t lo, std::int64_t hi, const RoundedForm& form,
                                             const float* x) const {
  if (lo >= std::ssize(strip_at_)) return {};
  const std::int32_t index = strip_at_[at(lo)];
  if (index < 0 || hi > strips_[index].hi) return {};
  Strip& strip = strips_[index];
  const OncePerRun::Turn turn = strip.turn.look(run_);
  if (turn == OncePerRun::Turn::of_another || (turn == OncePerRun::Turn::made && strip.made_hi != hi)) return {};
  const RoundedRows rows = rounded_in(strip.memory, hi - lo, form);
  if (turn == OncePerRun::Turn::mine) {
    round_rows(form, 0, hi - lo, x, form.cols, rows);
    strip.made_hi = hi;
    strip.turn.made(run_);
  }
  return rows;
}

}  // namespace weft
