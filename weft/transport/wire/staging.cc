#include "weft/transport/wire/staging.h"

#include <algorithm>
#include <bit>

#include "weft/base/error.h"
#include "weft/transport/local/memory.h"

namespace weft {
namespace {

std::size_t units_of(std::size_t bytes) {
  return std::max<std::size_t>(1, (bytes + Staging::kUnit - 1) / Staging::kUnit);
}

}  // namespace

Staging::Staging(std::size_t bytes, std::size_t most)
    : most_(most), memory_(map_anonymous(bytes)), used_((units_of(bytes) + 63) / 64), blocks_(units_of(bytes)) {
  // Units past the end, in the last word, are in use for ever.
  for (std::size_t unit = blocks_.size(); unit < used_.size() * 64; ++unit) mark(unit, 1, true);
}

Staging::Turn::Turn(Staging& staging) : staging_(staging) {
  const std::lock_guard lock(staging_.mutex_);
  ticket_ = staging_.tickets_++;
  staging_.line_.push_back(ticket_);
}

Staging::Turn::~Turn() {
  const std::lock_guard lock(staging_.mutex_);
  std::erase(staging_.line_, ticket_);
}

std::byte* Staging::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  return line_.empty() ? take_locked(bytes) : nullptr;
}

std::byte* Staging::take(std::size_t bytes, const Turn& turn) {
  const std::lock_guard lock(mutex_);
  return line_.front() == turn.ticket_ ? take_locked(bytes) : nullptr;
}

std::byte* Staging::take_locked(std::size_t bytes) {
  if (bytes > most_) fail(Code::internal, "{} bytes of staging were asked for; one block has at most {}", bytes, most_);
  const std::size_t units = units_of(bytes), all = blocks_.size();
  const std::size_t unit = find_run(units, lowest_, all);
  if (unit == all) return nullptr;
  mark(unit, units, true);
  blocks_[unit] = {static_cast<std::uint32_t>(units), 1};
  in_use_ += units;
  if (unit == lowest_) lowest_ += units;
  return static_cast<std::byte*>(memory_.get()) + unit * kUnit;
}

void Staging::split(std::byte* block, std::uint32_t parts) {
  const std::lock_guard lock(mutex_);
  blocks_[(block - static_cast<std::byte*>(memory_.get())) / kUnit].parts = parts;
}

bool Staging::give_back(std::byte* block) {
  const std::lock_guard lock(mutex_);
  const std::size_t unit = (block - static_cast<std::byte*>(memory_.get())) / kUnit;
  Block& entry = blocks_[unit];
  if (--entry.parts > 0) return false;
  mark(unit, entry.units, false);
  in_use_ -= entry.units;
  lowest_ = std::min(lowest_, unit);
  return true;
}

std::size_t Staging::units_in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

// The first of `units` free ones within [begin, end), or the number of all units where there is no such run.
std::size_t Staging::find_run(std::size_t units, std::size_t begin, std::size_t end) const {
  std::size_t start = begin;
  std::size_t at = begin;
  while (at < end) {
    const std::uint64_t rest = used_[at / 64] >> (at % 64);
    const std::size_t left = 64 - at % 64;
    const std::size_t free = std::min<std::size_t>(rest == 0 ? left : std::countr_zero(rest), end - at);
    at += free;
    if (at - start >= units) return start;
    if (free == left) continue;
    if (at == end) break;
    at += std::min<std::size_t>(std::countr_one(used_[at / 64] >> (at % 64)), 64 - at % 64);
    start = at;
  }
  return blocks_.size();
}

void Staging::mark(std::size_t unit, std::size_t units, bool used) {
  for (const std::size_t end = unit + units; unit < end;) {
    const std::size_t bits = std::min<std::size_t>(64 - unit % 64, end - unit);
    const std::uint64_t mask = (bits == 64 ? ~0ull : (1ull << bits) - 1) << (unit % 64);
    if (used)
      used_[unit / 64] |= mask;
    else
      used_[unit / 64] &= ~mask;
    unit += bits;
  }
}

}  // namespace weft
