#include "weft/plan/verify/limits.h"

#include <algorithm>

namespace weft::verifying {

std::int32_t LimitTable::intern(const Limits& limits) {
  if (limits == all_[kNone]) return kNone;
  if (limits == all_[kRows]) return kRows;
  std::uint64_t hash = static_cast<std::uint64_t>(limits.rows);
  for (const std::int64_t more : {std::int64_t{limits.peer}, std::int64_t{limits.by}, limits.shift})
    hash = (hash ^ (hash >> 29)) * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(more);
  std::int32_t& known = latest_[(hash ^ (hash >> 29)) * 0x9e3779b97f4a7c15ULL >> 54];
  if (all_[at(known)] == limits) return known;
  all_.push_back(limits);
  return known = int_size(all_) - 1;
}

std::int32_t LimitTable::both(std::int32_t a, const Limits& more) {
  Limits out = all_[at(a)];
  out.rows = std::max(out.rows, more.rows);
  if (out.peer == Limits::kNobody)
    out.peer = more.peer, out.by = more.by, out.shift = more.shift;
  else if (out.peer == more.peer)
    out.shift = std::max(out.shift, more.shift);
  else if (more.peer != Limits::kNobody)
    out.peer = Limits::kSeveral;
  return out == all_[at(a)] ? a : intern(out);
}

std::int32_t LimitTable::moved(std::int32_t id, std::int64_t by) {
  if (id == kNone || by == 0) return id;
  if (num(id) >= moves_.size()) moves_.resize(all_.size());
  if (moves_[at(id)].by == by) return moves_[at(id)].to;
  Limits out = all_[at(id)];
  if (out.rows != Limits::kAll) out.rows -= by;
  if (out.peer != Limits::kNobody) out.shift -= by;
  moves_[at(id)] = {by, intern(out)};
  return moves_[at(id)].to;
}

// Counts of rows are compared with rows of the output; those of peers with rows of the action.
Limits LimitTable::of(const Act& act, std::int64_t row, std::int64_t logical) {
  if (act.limit == Limit::rows) return {.rows = row - logical};
  return {.peer = act.limit_peer, .by = act.rank, .shift = row - act.first_row - logical};
}

}  // namespace weft::verifying
