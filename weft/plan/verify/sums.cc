// Promises 1 and 5: what every element holds, as a symbol. The value of a piece is the left fold of contributions
// (leaf, rank) of one logical box (folds.h); comparing with what is owed is one comparison however long the sum.
//
// A product is called by its producer and rank alone, so what it was made from must be beyond doubt: rows of an input
// with the numbers that the box has, or rows of a buffer of which the plan owes what they hold.
//
// Counts that a run gives are part of it: whichever rows are left out, those that count are there (limits.h).
#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/mesh/regions.h"
#include "weft/plan/verify/folds.h"
#include "weft/plan/verify/limits.h"
#include "weft/plan/verify/model.h"

namespace weft::verifying {
namespace {

struct Part {
  std::int32_t box;  // relative to the piece's corner, interned
  std::int32_t node;
  std::int32_t origin;  // its logical box, interned
  std::int32_t limit = LimitTable::kNone;
};

class Sums {
 public:
  Sums(Model& model, const Seen& seen)
      : m_(model),
        seen_(seen),
        folds_(model),
        parts_of_(model.acts.size(), Range{}),
        stacked_(model.plan->producers.size()),
        reads_made_(model.plan->producers.size()),
        residual_in_(model.plan->producers.size(), -1),
        operands_(num(model.plan->num_ranks)) {
    for (const Act& act : m_.acts)
      if (act.is_step && m_.boxes[act.box].hi[0] > m_.plan->producers[act.producer].m) stacked_[act.producer] = true;
  }

  void run(const std::vector<std::int32_t>& order) {
    for (std::size_t i = 0; i < order.size() && !m_.failed(); ++i) make(order[i]);
    const std::int64_t before = m_.budget->work();
    for (int rank = 0; rank < m_.plan->num_ranks && !m_.failed(); ++rank) {
      check_owed(rank);
      if (rank == 0) m_.budget->expect(m_.budget->work() - before, m_.plan->num_ranks);
    }
    if (!m_.failed()) check_stacks();
  }

 private:
  // A list that grows is there twice for a while, and there are up to three.
  void weigh(const std::vector<Part>& list) {
    m_.budget->scratch(4 * std::ssize(list) * std::int64_t{sizeof(Part)});
    hold_tables();
  }
  void hold_tables() {
    m_.hold_boxes();
    if (limits_.bytes() == limits_held_) return;
    m_.hold(limits_.bytes() - limits_held_);
    limits_held_ = limits_.bytes();
  }

  // The parts that a source or owed piece is made of.
  void parts_of(const VPiece& piece, std::span<const std::int32_t> writers, std::vector<Part>* out) {
    if (m_.plan->buffers[piece.buffer].role == Role::input) {
      const Box& box = m_.boxes[piece.box];
      out->push_back({relative(box, box), folds_.leaf(-1 - piece.buffer, piece.rank), piece.box});
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

  std::int32_t relative(const Box& box, const Box& corner) {
    Box out = box;
    for (int d = 0; d < box.dims; ++d) out.lo[d] -= corner.lo[d], out.hi[d] -= corner.lo[d];
    return m_.boxes.intern(out);
  }

  // Part of a written box, seen through another box of the same buffer.
  void clip(const Part& part, const Box& written, const Box& wanted, std::vector<Part>* out) {
    Box box = m_.boxes[part.box];
    for (int d = 0; d < box.dims; ++d) box.lo[d] += written.lo[d], box.hi[d] += written.lo[d];
    const Box common = intersect(box, wanted);
    if (common.empty()) return;
    out->push_back({relative(common, wanted), part.node, moved(part.origin, common, box), part.limit});
  }
  // The logical box of `common`, a part of `box` whose logical box is `origin`.
  std::int32_t moved(std::int32_t origin, const Box& common, const Box& box) {
    Box out = m_.boxes[origin];
    for (int d = 0; d < out.dims; ++d) {
      out.lo[d] += common.lo[d] - box.lo[d];
      out.hi[d] = out.lo[d] + common.size(d);
    }
    return m_.boxes.intern(out);
  }

  // Folds one more source into the sum so far, element by element.
  bool fold(std::vector<Part>* sum, const std::vector<Part>& next) {
    scratch_.clear();
    m_.spend(static_cast<std::int64_t>(sum->size() * next.size()));
    for (const Part& a : *sum) {
      if (next.size() > 1) weigh(scratch_);
      for (const Part& b : next) {
        if (a.box == b.box) {
          if (a.origin != b.origin) return false;
          scratch_.push_back({a.box, folds_.add(a.node, b.node), a.origin, limits_.both(a.limit, b.limit)});
          continue;
        }
        const Box left = m_.boxes[a.box], right = m_.boxes[b.box];
        const Box common = intersect(left, right);
        if (common.empty()) continue;
        const std::int32_t origin = moved(a.origin, common, left);
        if (origin != moved(b.origin, common, right)) return false;
        scratch_.push_back(
            {m_.boxes.intern(common), folds_.add(a.node, b.node), origin, limits_.both(a.limit, b.limit)});
      }
    }
    sum->swap(scratch_);
    return true;
  }

  void make(std::int32_t a) {
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
  bool keep(const Act& act, Part part) {
    if (act.finish) {
      if (!in_place(part, act)) {
        m_.problem(fmt::format("{} finishes elements of other places than its box", m_.name(act)));
        return false;
      }
      const std::optional<Finish> how = finish_of(act);
      if (!how) return false;
      part.node = folds_.finished(part.node, *how);
    }
    if (act.limit == Limit::rows && part.origin == act.box) {
      part.limit = limits_.both(part.limit, LimitTable::kRows);
    } else if (act.limit != Limit::none) {
      const std::int64_t row = m_.boxes[act.box].lo[0] + m_.boxes[part.box].lo[0];
      part.limit = limits_.both(part.limit, limits_.of(act, row, m_.boxes[part.origin].lo[0]));
    }
    parts_.push_back(part);
    return true;
  }

  // The epilogue finds its bias by the action's box: what it finishes must lie there.
  bool in_place(const Part& part, const Act& act) const {
    const Box &box = m_.boxes[part.box], &logical = m_.boxes[part.origin], &home = m_.boxes[act.box];
    for (int d = 0; d < box.dims; ++d)
      if (logical.lo[d] != home.lo[d] + box.lo[d]) return false;
    return true;
  }
  // And its residual by the first target, in the one output that the residual has the shape of.
  std::optional<Finish> finish_of(const Act& act) {
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
  Finish finish_of(const Expander::Due& due) const {
    Finish how{due.epilogue};
    if (!m_.plan->producers[how.producer].residual) return how;
    how.rows = due.piece.box.lo[0] - due.origin[0], how.cols = due.piece.box.lo[1] - due.origin[1];
    return how;
  }

  // A step's tile, with the limits of the rows that it is made from.
  bool make_tile(const Act& act) {
    const Box home = m_.boxes[act.box];
    tile_.assign(1, {relative(home, home), folds_.leaf(act.producer, act.rank), act.box});
    if (act.reads.size() > 0) return check_operand(act, home, act.reads.begin);
    if (!stacked_[act.producer] || act.rank == 0) return true;
    m_.problem(fmt::format("{} makes {} from its own x, which are rows {} and on of the output; read them as they are",
                           m_.name(act), to_string(home), act.rank * m_.plan->producers[act.producer].m));
    return false;
  }

  // Rows of an input make the same rows of the output or, where the output has more rows than one rank's input, those
  // of rank c, the c-th in a stack of all ranks' rows. What was made before keeps its row, or is the rank's own rows of
  // the stack; and it must be owed there.
  bool check_operand(const Act& act, const Box& home, std::int32_t read) {
    const std::int64_t m = m_.plan->producers[act.producer].m;
    const std::int64_t row = m_.boxes[m_.pieces[read].box].lo[0];
    bool made_before = false, limited = false, right = true;
    next_.clear();
    parts_of(m_.pieces[read], writers_of(read), &next_);
    for (const Part& part : next_) {
      limited = limited || part.limit != LimitTable::kNone;
      const Box &at = m_.boxes[part.box], &origin = m_.boxes[part.origin];
      if (const auto rank = folds_.input_of(part.node)) {
        const std::int64_t first = stacked_[act.producer] ? *rank * m : 0;
        right = right && (stacked_[act.producer] || *rank == act.rank) &&
                first + origin.lo[0] == home.lo[0] + at.lo[0] && origin.lo[1] == at.lo[1];
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
  void limit_tile(const Box& home) {
    const auto limit_of = [&](const Part& part) {
      return limits_.moved(part.limit, home.lo[0] + m_.boxes[part.box].lo[0] - m_.boxes[part.origin].lo[0]);
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
          part.limit = limits_.both(part.limit, limit_of(from));
      tile_.push_back(part);
    }
  }

  // All ranks make a row of a stacked output from the same values. Of inputs their numbers say it already.
  void check_stacks() {
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
  struct Operand {
    std::int64_t lo, hi;  // rows that are made from it
    const Act* act;
    std::vector<Part> parts;
  };
  bool agree(const Operand& one, const Operand& other) const {
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

  std::span<const std::int32_t> writers_of(std::int32_t piece) const {
    return {seen_.writers.data() + seen_.first[piece], num(seen_.first[piece + 1] - seen_.first[piece])};
  }

  std::span<const std::int32_t> writes_to(int rank, std::int32_t buffer) const {
    const std::size_t b = rank * m_.plan->buffers.size() + buffer;
    return {seen_.writes.data() + seen_.first_write[b], num(seen_.first_write[b + 1] - seen_.first_write[b])};
  }

  std::int32_t expected(const Expander::Due& due) {
    // A sum by hosts is over all ranks, so numbers above theirs are free to tell it.
    const std::int32_t over = due.ranks_per_host > 1 ? m_.plan->num_ranks + due.ranks_per_host : due.contributors;
    // Side by side: 18 bits (two times 65536 ranks), 16 bits, and the leaf, as in Folds::leaf().
    const auto source = static_cast<std::uint64_t>(due.leaf >= 0 ? 2 * due.leaf : -2 * due.leaf - 1);
    const std::uint64_t key =
        source << 34 | static_cast<std::uint64_t>(due.first) << 18 | static_cast<std::uint64_t>(over);
    std::int32_t& known = expected_.at(key);
    if (known == -1) {
      m_.spend(16 * std::int64_t{due.contributors});
      known = due.ranks_per_host > 1 ? by_hosts(due) : flat(due);
    }
    return due.finished ? folds_.finished(known, finish_of(due)) : known;
  }
  std::int32_t flat(const Expander::Due& due) {
    std::int32_t node = folds_.leaf(due.leaf, due.first);
    for (std::int32_t i = 1; i < due.contributors; ++i)
      node = folds_.add(node, folds_.leaf(due.leaf, (due.first + i) % m_.plan->num_ranks));
    return node;
  }
  // The order of a sum that goes host by host: plan.h.
  std::int32_t by_hosts(const Expander::Due& due) {
    const std::int32_t per_host = due.ranks_per_host, hosts = m_.plan->num_ranks / per_host;
    const auto from = [&](std::int32_t host, std::int32_t i) {
      return folds_.leaf(due.leaf, (due.first / per_host + host) % hosts * per_host + (due.first + i) % per_host);
    };
    std::int32_t sum = -1;
    for (std::int32_t host = 0; host + 1 < hosts; ++host) {
      std::int32_t node = from(host, 0);
      for (std::int32_t i = 1; i < per_host; ++i) node = folds_.add(node, from(host, i));
      sum = host == 0 ? node : folds_.add(sum, node);
    }
    for (std::int32_t i = 0; i < per_host; ++i)
      sum = sum == -1 ? from(hosts - 1, i) : folds_.add(sum, from(hosts - 1, i));
    return sum;
  }

  void check_owed(int rank) {
    const Places places(m_, seen_, rank);
    const std::vector<Expander::Due> dues = m_.expander->owed(rank);
    counted_.clear();
    for (const Expander::Due& due : dues) {
      m_.spend(16);
      const VPiece piece{-1, rank, due.piece.buffer, m_.boxes.intern(due.piece.box)};
      const std::int32_t match = places.find(piece.buffer, piece.box);
      next_.clear();
      if (match >= 0)
        parts_of(piece, {&match, 1}, &next_);
      else
        parts_of(piece, writes_to(rank, piece.buffer), &next_);
      weigh(next_);
      m_.spend(std::ssize(next_));
      if (!check_due(due, piece)) return;
    }
    if (!operands_[rank].empty()) check_operands(rank, dues);
    if (!counted_.empty()) check_counts(rank);
    m_.hold_boxes();
  }

  bool check_due(const Expander::Due& due, const VPiece& piece) {
    const std::int32_t want = expected(due);
    const std::string& buffer = m_.plan->buffers[piece.buffer].name;
    std::int64_t covered = 0;
    for (const Part& part : next_) {
      const Box box = m_.boxes[part.box], logical = m_.boxes[part.origin];
      covered += box.volume();
      bool placed = true;
      for (int d = 0; d < box.dims; ++d) placed = placed && logical.lo[d] == due.origin[d] + box.lo[d];
      if (placed && folds_.same(part.node, want)) {
        if (part.limit > LimitTable::kRows) counted_.push_back({due, logical.lo[0], logical.hi[0], part.limit});
        m_.budget->scratch(3 * std::ssize(counted_) * std::int64_t{sizeof(Counted)});
        continue;
      }
      m_.problem(fmt::format("rank {} is owed {} of \"{}\" as {}, but gets {}{}", piece.rank, to_string(due.piece.box),
                             buffer, folds_.show(want), folds_.show(part.node),
                             placed ? "" : " of another place, " + to_string(logical)));
      return false;
    }
    if (covered == due.piece.box.volume()) return true;
    m_.problem(fmt::format("rank {} is owed {} of \"{}\", of which {} elements are never written", piece.rank,
                           to_string(due.piece.box), buffer, due.piece.box.volume() - covered));
    return false;
  }

  // What products read and other actions made must be owed where it is read. That it is as owed has been checked.
  void check_operands(int rank, const std::vector<Expander::Due>& dues) {
    FlatMap<std::uint64_t> whole(dues.size());
    const auto key = [](std::int32_t buffer, std::int32_t box) {
      return static_cast<std::uint64_t>(buffer) << 32 | static_cast<std::uint32_t>(box);
    };
    for (const Expander::Due& due : dues) whole.at(key(due.piece.buffer, m_.boxes.intern(due.piece.box))) = 1;
    for (const std::int32_t read : operands_[rank]) {
      const VPiece& piece = m_.pieces[read];
      std::int32_t& known = whole.at(key(piece.buffer, piece.box));
      if (known != -1) continue;
      std::vector<Box> owed;
      m_.spend(static_cast<std::int64_t>(dues.size()));
      for (const Expander::Due& due : dues)
        if (due.piece.buffer == piece.buffer && overlaps(due.piece.box, m_.boxes[piece.box]))
          owed.push_back(due.piece.box);
      m_.spend(static_cast<std::int64_t>(owed.size() * owed.size()));
      if (!covers(owed, m_.boxes[piece.box]))
        return m_.problem(fmt::format(
            "{} makes its product of {} of \"{}\", which are no rows of an input as they are, "
            "and of which the plan does not owe what they hold",
            m_.name(m_.acts[piece.act]), to_string(m_.boxes[piece.box]), m_.plan->buffers[piece.buffer].name));
      known = 1;
    }
  }

  // A part of what is owed, of which a run may leave rows out.
  struct Counted {
    Expander::Due due;
    std::int64_t lo, hi;  // its logical rows
    std::int32_t limit;
  };

  // Rows that count must be there. The count of rows speaks of logical rows. The count of a peer means one of two
  // things in all of a plan: rows from that peer (of a gather, the same on all ranks), or rows for that peer (of an
  // exchange).
  void check_counts(int rank) {
    std::map<std::array<std::int64_t, 4>, std::int64_t> starts;
    for (const Counted& c : counted_) {
      if (limits_[c.limit].rows > 0 || limits_[c.limit].peer == Limits::kSeveral) return complain_count(rank, c);
      if (limits_[c.limit].peer == Limits::kNobody) continue;
      bool from = is_from(c, c.due.origin[0]), to = is_for(rank, c, c.due.origin[0]);
      if ((!from && gathers_) || (!to && exchanges_)) {  // it may be a later part of what a rank sends
        if (starts.empty()) find_starts(&starts);
        const std::int64_t start = starts.at(group_of(c));
        from = is_from(c, start), to = is_for(rank, c, start);
      }
      gathers_ = gathers_ && from, exchanges_ = exchanges_ && to;
      if (!gathers_ && !exchanges_) return complain_count(rank, c);
    }
  }
  void complain_count(int rank, const Counted& c) {
    const Limits& limits = limits_[c.limit];
    const std::string rows = fmt::format("rank {} is owed {} of \"{}\"", rank, to_string(c.due.piece.box),
                                         m_.plan->buffers[c.due.piece.buffer].name);
    if (limits.rows > 0)
      return m_.problem(
          fmt::format("{}, of which {} rows are left out too many where a run counts rows", rows, limits.rows));
    if (limits.peer == Limits::kSeveral)
      return m_.problem(fmt::format("{}, whose rows are left out by the counts of several peers", rows));
    m_.problem(
        fmt::format("{}, whose rows are left out by the count of peer {} on rank {}, but neither come from that "
                    "peer nor were sent to it as the count says",
                    rows, limits.peer, limits.by));
  }

  // Those of one peer that begin where its rows do, in the numbers of what is owed.
  bool is_from(const Counted& c, std::int64_t start) const {
    const Limits& limits = limits_[c.limit];
    if (c.due.contributors > 1) return limits.peer == limits.by && limits.shift <= -start;
    if (c.due.leaf < 0 || !stacked_[c.due.leaf]) return limits.peer == c.due.first && limits.shift <= 0 && start == 0;
    const std::int64_t m = m_.plan->producers[c.due.leaf].m, first = limits.peer * m;
    return first <= c.lo && c.hi <= first + m && limits.shift <= -first;
  }
  bool is_for(int rank, const Counted& c, std::int64_t start) const {
    const Limits& limits = limits_[c.limit];
    return limits.peer == rank && (c.due.contributors > 1 || limits.by == c.due.first) && limits.shift <= -start;
  }
  std::array<std::int64_t, 4> group_of(const Counted& c) const {
    const Limits& limits = limits_[c.limit];
    return {c.due.piece.buffer, c.due.contributors > 1 ? -1 : c.due.first, limits.by, limits.peer};
  }
  void find_starts(std::map<std::array<std::int64_t, 4>, std::int64_t>* starts) const {
    for (const Counted& c : counted_) {
      m_.spend(32);
      const auto at = starts->try_emplace(group_of(c), c.due.origin[0]).first;
      at->second = std::min(at->second, c.due.origin[0]);
    }
  }

  Model& m_;
  const Seen& seen_;
  Folds folds_;
  LimitTable limits_;
  std::int64_t limits_held_ = 0;
  FlatMap<std::uint64_t> expected_;
  std::vector<Part> parts_, sum_, next_, scratch_, tile_;
  std::vector<Range> parts_of_;                      // what each act made; the same for all its targets
  std::vector<bool> stacked_;                        // producers whose output is of more rows than one rank's input
  std::vector<bool> reads_made_;                     // producers that read what others made
  std::vector<std::int32_t> residual_in_;            // of each producer: the output that its residual has the shape of
  std::vector<std::vector<std::int32_t>> operands_;  // of each rank: reads of what others made
  std::vector<Counted> counted_;                     // of one rank
  std::vector<std::int64_t> cuts_;
  bool gathers_ = true, exchanges_ = true;  // what counts of peers may mean
};

}  // namespace

void check_sums(Model& model, const std::vector<std::int32_t>& order, const Seen& seen) {
  Sums(model, seen).run(order);
}

}  // namespace weft::verifying
