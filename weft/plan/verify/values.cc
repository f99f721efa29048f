#include "weft/plan/verify/values.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

namespace weft::verifying {

Values::Values(Model& model, const Seen& seen)
    : folds(model),
      m_(model),
      seen_(seen),
      parts_of_(model.acts.size(), Range{}),
      stacked_(model.plan->producers.size()),
      reads_made_(model.plan->producers.size()),
      residual_in_(model.plan->producers.size(), -1),
      operands_(num(model.plan->num_ranks)) {
  for (const Act& act : m_.acts)
    if (act.is_step && m_.boxes[act.box].hi[0] > m_.plan->producers[act.producer].m) stacked_[act.producer] = true;
}

// A list that grows is there twice for a while, and there are up to three.
void Values::weigh(const std::vector<Part>& list) {
  m_.budget->scratch(4 * std::ssize(list) * std::int64_t{sizeof(Part)});
  hold_tables();
}

void Values::hold_tables() {
  m_.hold_boxes();
  if (limits.bytes() == limits_held_) return;
  m_.hold(limits.bytes() - limits_held_);
  limits_held_ = limits.bytes();
}

// The parts that a source or owed piece is made of.
void Values::parts_of(const VPiece& piece, std::span<const std::int32_t> writers, std::vector<Part>* out) {
  if (m_.plan->buffers[piece.buffer].role == Role::input) {
    const Box& box = m_.boxes[piece.box];
    out->push_back({relative(box, box), folds.leaf(-1 - piece.buffer, piece.rank), piece.box});
    return;
  }
  for (const std::int32_t w : writers) {
    const VPiece& write = m_.pieces[w];
    const Range made = parts_of_[write.act];
    m_.spend(4 * (made.size() + 1));
    const bool whole = write.box == piece.box;
    for (std::int32_t i = made.begin; i < made.end; ++i) {
      if (whole)
        out->push_back(parts_[i]);
      else
        clip(parts_[i], m_.boxes[write.box], m_.boxes[piece.box], out);
    }
    if (made.size() > 1) weigh(*out);
  }
}

std::int32_t Values::relative(const Box& box, const Box& corner) {
  Box out = box;
  for (int d = 0; d < box.dims; ++d) out.lo[d] -= corner.lo[d], out.hi[d] -= corner.lo[d];
  return m_.boxes.intern(out);
}

// Part of a written box, seen through another box of the same buffer.
void Values::clip(const Part& part, const Box& written, const Box& wanted, std::vector<Part>* out) {
  Box box = m_.boxes[part.box];
  for (int d = 0; d < box.dims; ++d) box.lo[d] += written.lo[d], box.hi[d] += written.lo[d];
  const Box common = intersect(box, wanted);
  if (common.empty()) return;
  out->push_back({relative(common, wanted), part.node, moved(part.origin, common, box), part.limit});
}

// The logical box of `common`, a part of `box` whose logical box is `origin`.
std::int32_t Values::moved(std::int32_t origin, const Box& common, const Box& box) {
  Box out = m_.boxes[origin];
  for (int d = 0; d < out.dims; ++d) {
    out.lo[d] += common.lo[d] - box.lo[d];
    out.hi[d] = out.lo[d] + common.size(d);
  }
  return m_.boxes.intern(out);
}

// Folds one more source into the sum so far, element by element.
bool Values::fold(std::vector<Part>* sum, const std::vector<Part>& next) {
  scratch_.clear();
  m_.spend(static_cast<std::int64_t>(sum->size() * next.size()));
  for (const Part& a : *sum) {
    if (next.size() > 1) weigh(scratch_);
    for (const Part& b : next) {
      if (a.box == b.box) {
        if (a.origin != b.origin) return false;
        scratch_.push_back({a.box, folds.add(a.node, b.node), a.origin, limits.both(a.limit, b.limit)});
        continue;
      }
      const Box left = m_.boxes[a.box], right = m_.boxes[b.box];
      const Box common = intersect(left, right);
      if (common.empty()) continue;
      const std::int32_t origin = moved(a.origin, common, left);
      if (origin != moved(b.origin, common, right)) return false;
      scratch_.push_back({m_.boxes.intern(common), folds.add(a.node, b.node), origin, limits.both(a.limit, b.limit)});
    }
  }
  sum->swap(scratch_);
  return true;
}

void Values::make(std::int32_t a) {
  const Act& act = m_.acts[a];
  if (act.targets.size() == 0) return;
  sum_.clear();
  bool begun = false, matched = true;
  const auto include = [&](const std::vector<Part>& parts) {
    if (begun)
      matched = matched && fold(&sum_, parts);
    else
      sum_ = parts;
    begun = true;
  };
  for (std::int32_t p = act.sources.begin; p < act.sources.end; ++p) {
    next_.clear();
    parts_of(m_.pieces[p], writers_of(p), &next_);
    include(next_);
  }
  if (act.is_step) {
    if (!make_tile(act)) return;
    include(tile_);
  }
  if (!matched) return m_.problem(fmt::format("{} adds elements of different places of the output", m_.name(act)));
  m_.hold(std::ssize(sum_) * std::int64_t{2 * sizeof(Part)});
  hold_tables();
  const auto begin = int_size(parts_);
  for (const Part& part : sum_) {
    if (!keep(act, part)) return;
  }
  parts_of_[a] = {begin, int_size(parts_)};
}

// What an act stores of one part of its sum: finished, and short of the rows that it leaves out.
bool Values::keep(const Act& act, Part part) {
  if (act.finish) {
    if (!in_place(part, act)) {
      m_.problem(fmt::format("{} finishes elements of other places than its box", m_.name(act)));
      return false;
    }
    const std::optional<Finish> how = finish_of(act);
    if (!how) return false;
    part.node = folds.finished(part.node, *how);
  }
  if (act.limit == Limit::rows && part.origin == act.box) {
    part.limit = limits.both(part.limit, LimitTable::kRows);
  } else if (act.limit != Limit::none) {
    const std::int64_t row = m_.boxes[act.box].lo[0] + m_.boxes[part.box].lo[0];
    part.limit = limits.both(part.limit, limits.of(act, row, m_.boxes[part.origin].lo[0]));
  }
  parts_.push_back(part);
  return true;
}

// The epilogue finds its bias by the action's box: what it finishes must lie there.
bool Values::in_place(const Part& part, const Act& act) const {
  const Box &box = m_.boxes[part.box], &logical = m_.boxes[part.origin], &home = m_.boxes[act.box];
  for (int d = 0; d < box.dims; ++d)
    if (logical.lo[d] != home.lo[d] + box.lo[d]) return false;
  return true;
}

// And its residual by the first target, in the one output that the residual has the shape of.
std::optional<Finish> Values::finish_of(const Act& act) {
  Finish how{std::max(act.producer, 0)};
  if (!m_.plan->producers[how.producer].residual) return how;
  const VPiece& target = m_.pieces[act.targets.begin];
  std::int32_t& known = residual_in_[how.producer];
  if (known == -1) known = target.buffer;
  if (known != target.buffer) {
    m_.problem(fmt::format("{} adds a residual to \"{}\", but others add it to \"{}\"; one output has its shape",
                           m_.name(act), m_.plan->buffers[target.buffer].name, m_.plan->buffers[known].name));
    return {};
  }
  const Box &there = m_.boxes[target.box], &home = m_.boxes[act.box];
  how.rows = there.lo[0] - home.lo[0], how.cols = there.lo[1] - home.lo[1];
  return how;
}

// A step's tile, with the limits of the rows that it is made from.
bool Values::make_tile(const Act& act) {
  const Box home = m_.boxes[act.box];
  tile_.assign(1, {relative(home, home), folds.leaf(act.producer, act.rank), act.box});
  if (act.reads.size() > 0) return check_operand(act, home, act.reads.begin);
  if (!stacked_[act.producer] || act.rank == 0) return true;
  m_.problem(fmt::format("{} makes {} from its own x, which are rows {} and on of the output; read them as they are",
                         m_.name(act), to_string(home), act.rank * m_.plan->producers[act.producer].m));
  return false;
}

// Rows of an input make the same rows of the output or, where the output has more rows than one rank's input, those
// of rank c, the c-th in a stack of all ranks' rows. What was made before keeps its row, or is the rank's own rows of
// the stack; and it must be owed there.
bool Values::check_operand(const Act& act, const Box& home, std::int32_t read) {
  const std::int64_t m = m_.plan->producers[act.producer].m;
  const std::int64_t row = m_.boxes[m_.pieces[read].box].lo[0];
  bool made_before = false, limited = false, right = true;
  next_.clear();
  parts_of(m_.pieces[read], writers_of(read), &next_);
  for (const Part& part : next_) {
    limited = limited || part.limit != LimitTable::kNone;
    const Box &at = m_.boxes[part.box], &origin = m_.boxes[part.origin];
    if (const auto rank = folds.input_of(part.node)) {
      const std::int64_t first = stacked_[act.producer] ? *rank * m : 0;
      right = right && (stacked_[act.producer] || *rank == act.rank) && first + origin.lo[0] == home.lo[0] + at.lo[0] &&
              origin.lo[1] == at.lo[1];
    } else {
      made_before = true;
      right = right && (row == home.lo[0] || (stacked_[act.producer] && row + act.rank * m == home.lo[0]));
    }
  }
  if (!right) m_.problem(fmt::format("{} reads other rows than those its box is made from", m_.name(act)));
  if (made_before) operands_[act.rank].push_back(read), reads_made_[act.producer] = true;
  if (limited) limit_tile(home);
  return right;
}

// Rows of the tile that are made from rows of several limits are parts of their own.
void Values::limit_tile(const Box& home) {
  const auto limit_of = [&](const Part& part) {
    return limits.moved(part.limit, home.lo[0] + m_.boxes[part.box].lo[0] - m_.boxes[part.origin].lo[0]);
  };
  Part whole = tile_[0];
  whole.limit = limit_of(next_[0]);
  cuts_.clear();
  bool alike = true;
  for (const Part& part : next_) {
    alike = alike && limit_of(part) == whole.limit;
    cuts_.push_back(m_.boxes[part.box].lo[0]);
    cuts_.push_back(m_.boxes[part.box].hi[0]);
  }
  tile_[0] = whole;
  if (alike) return;
  std::sort(cuts_.begin(), cuts_.end());
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
  m_.spend(static_cast<std::int64_t>(cuts_.size() * next_.size()));
  tile_.clear();
  for (std::size_t i = 0; i + 1 < cuts_.size(); ++i) {
    Box box = m_.boxes[whole.box], logical = home;
    box.lo[0] = cuts_[i], box.hi[0] = cuts_[i + 1];
    logical.lo[0] = home.lo[0] + box.lo[0], logical.hi[0] = home.lo[0] + box.hi[0];
    Part part{m_.boxes.intern(box), whole.node, m_.boxes.intern(logical)};
    for (const Part& from : next_)
      if (m_.boxes[from.box].lo[0] <= box.lo[0] && box.hi[0] <= m_.boxes[from.box].hi[0])
        part.limit = limits.both(part.limit, limit_of(from));
    tile_.push_back(part);
  }
}

// All ranks make a row of a stacked output from the same values. Of inputs their numbers say it already.
void Values::check_stacks() {
  std::vector<std::multimap<std::int64_t, Operand>> seen(stacked_.size());
  std::vector<std::int64_t> tallest(stacked_.size());
  for (const Act& act : m_.acts) {
    if (!act.is_step || act.reads.size() == 0 || !stacked_[act.producer] || !reads_made_[act.producer]) continue;
    const std::int64_t lo = m_.boxes[act.box].lo[0], hi = m_.boxes[act.box].hi[0];
    Operand operand{lo, hi, &act, {}};
    parts_of(m_.pieces[act.reads.begin], writers_of(act.reads.begin), &operand.parts);
    auto& others = seen[act.producer];
    bool known = false;
    m_.hold(std::ssize(operand.parts) * std::int64_t{2 * sizeof(Part)} + std::int64_t{2 * sizeof(Operand)});
    for (auto other = others.lower_bound(lo - tallest[act.producer]); other != others.end() && other->first < hi;
         ++other) {
      m_.spend(4);
      if (!agree(operand, other->second))
        return m_.problem(fmt::format("{} makes rows {} to {} from other values than {}", m_.name(act), lo, hi,
                                      m_.name(*other->second.act)));
      known = known || (other->second.lo == lo && other->second.hi == hi);
    }
    tallest[act.producer] = std::max(tallest[act.producer], hi - lo);
    if (!known) others.emplace(lo, std::move(operand));
  }
}

bool Values::agree(const Operand& one, const Operand& other) const {
  m_.spend(static_cast<std::int64_t>(4 * one.parts.size() * other.parts.size()));
  const auto placed = [&](const Part& part, std::int64_t row) {
    Box box = m_.boxes[part.box];
    box.lo[0] += row, box.hi[0] += row;
    return box;
  };
  for (const Part& a : one.parts)
    for (const Part& b : other.parts) {
      const Box left = placed(a, one.lo), right = placed(b, other.lo), common = intersect(left, right);
      if (common.empty()) continue;
      const Box &from = m_.boxes[a.origin], &to = m_.boxes[b.origin];
      bool same_place = a.node == b.node;
      for (int d = 0; d < common.dims; ++d)
        same_place = same_place && from.lo[d] - left.lo[d] == to.lo[d] - right.lo[d];
      if (!same_place) return false;
    }
  return true;
}

std::span<const std::int32_t> Values::writers_of(std::int32_t piece) const {
  return {seen_.writers.data() + seen_.first[piece], num(seen_.first[piece + 1] - seen_.first[piece])};
}

}  // namespace weft::verifying
