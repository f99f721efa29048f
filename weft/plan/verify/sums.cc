// Promises 1 and 5: what is owed to each rank is what its memory holds (values.h). The value of a piece is the left
// fold of contributions (leaf, rank) of one logical box; comparing with what is owed is one comparison however long the
// sum.
//
// Counts that a run gives are part of it: whichever rows are left out, those that count are there.
#include <algorithm>
#include <array>
#include <map>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/mesh/regions.h"
#include "weft/plan/verify/values.h"

namespace weft::verifying {
namespace {

class Promises {
 public:
  Promises(Model& model, const Seen& seen) : m_(model), seen_(seen), values_(model, seen) {}

  void run(const std::vector<std::int32_t>& order) {
    for (std::size_t i = 0; i < order.size() && !m_.failed(); ++i) values_.make(order[i]);
    const std::int64_t before = m_.budget->work();
    for (int rank = 0; rank < m_.plan->num_ranks && !m_.failed(); ++rank) {
      check_owed(rank);
      if (rank == 0) m_.budget->expect(m_.budget->work() - before, m_.plan->num_ranks);
    }
    if (!m_.failed()) values_.check_stacks();
  }

 private:
  Finish finish_of(const Expander::Due& due) const {
    Finish how{due.epilogue};
    if (!m_.plan->producers[how.producer].residual) return how;
    how.rows = due.piece.box.lo[0] - due.origin[0], how.cols = due.piece.box.lo[1] - due.origin[1];
    return how;
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
    return due.finished ? values_.folds.finished(known, finish_of(due)) : known;
  }
  std::int32_t flat(const Expander::Due& due) {
    std::int32_t node = values_.folds.leaf(due.leaf, due.first);
    for (std::int32_t i = 1; i < due.contributors; ++i)
      node = values_.folds.add(node, values_.folds.leaf(due.leaf, (due.first + i) % m_.plan->num_ranks));
    return node;
  }
  // The order of a sum that goes host by host: plan.h.
  std::int32_t by_hosts(const Expander::Due& due) {
    const std::int32_t per_host = due.ranks_per_host, hosts = m_.plan->num_ranks / per_host;
    const auto from = [&](std::int32_t host, std::int32_t i) {
      return values_.folds.leaf(due.leaf,
                                (due.first / per_host + host) % hosts * per_host + (due.first + i) % per_host);
    };
    std::int32_t sum = -1;
    for (std::int32_t host = 0; host + 1 < hosts; ++host) {
      std::int32_t node = from(host, 0);
      for (std::int32_t i = 1; i < per_host; ++i) node = values_.folds.add(node, from(host, i));
      sum = host == 0 ? node : values_.folds.add(sum, node);
    }
    for (std::int32_t i = 0; i < per_host; ++i)
      sum = sum == -1 ? from(hosts - 1, i) : values_.folds.add(sum, from(hosts - 1, i));
    return sum;
  }

  void check_owed(int rank) {
    Places places(m_, seen_, rank);
    const std::vector<Expander::Due> dues = m_.expander->owed(rank);
    counted_.clear();
    for (const Expander::Due& due : dues) {
      m_.spend(16);
      const VPiece piece{-1, rank, due.piece.buffer, m_.boxes.intern(due.piece.box)};
      const std::int32_t match = places.find(piece.buffer, piece.box);
      parts_.clear();
      if (match >= 0)
        values_.parts_of(piece, {&match, 1}, &parts_);
      else
        values_.parts_of(piece, places.near(piece.buffer, due.piece.box), &parts_);
      values_.weigh(parts_);
      m_.spend(std::ssize(parts_));
      if (!check_due(due, piece)) return;
    }
    if (!values_.operands(rank).empty()) check_operands(rank, dues);
    if (!counted_.empty()) check_counts(rank);
    m_.hold_boxes();
  }

  bool check_due(const Expander::Due& due, const VPiece& piece) {
    const std::int32_t want = expected(due);
    const std::string& buffer = m_.plan->buffers[piece.buffer].name;
    std::int64_t covered = 0;
    for (const Part& part : parts_) {
      const Box box = m_.boxes[part.box], logical = m_.boxes[part.origin];
      covered += box.volume();
      bool placed = true;
      for (int d = 0; d < box.dims; ++d) placed = placed && logical.lo[d] == due.origin[d] + box.lo[d];
      if (placed && values_.folds.same(part.node, want)) {
        if (part.limit > LimitTable::kRows) counted_.push_back({due, logical.lo[0], logical.hi[0], part.limit});
        m_.budget->scratch(3 * std::ssize(counted_) * std::int64_t{sizeof(Counted)});
        continue;
      }
      m_.problem(fmt::format("rank {} is owed {} of \"{}\" as {}, but gets {}{}", piece.rank, to_string(due.piece.box),
                             buffer, values_.folds.show(want), values_.folds.show(part.node),
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
    for (const std::int32_t read : values_.operands(rank)) {
      const VPiece& piece = m_.pieces[read];
      std::int32_t& known = whole.at(key(piece.buffer, piece.box));
      if (known != -1) continue;
      std::vector<Box> owed;
      m_.spend(std::ssize(dues));
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
      if (values_.limits[c.limit].rows > 0 || values_.limits[c.limit].peer == Limits::kSeveral)
        return complain_count(rank, c);
      if (values_.limits[c.limit].peer == Limits::kNobody) continue;
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
    const Limits& limits = values_.limits[c.limit];
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
    const Limits& limits = values_.limits[c.limit];
    if (c.due.contributors > 1) return limits.peer == limits.by && limits.shift <= -start;
    if (c.due.leaf < 0 || !values_.stacked(c.due.leaf))
      return limits.peer == c.due.first && limits.shift <= 0 && start == 0;
    const std::int64_t m = m_.plan->producers[c.due.leaf].m, first = limits.peer * m;
    return first <= c.lo && c.hi <= first + m && limits.shift <= -first;
  }
  bool is_for(int rank, const Counted& c, std::int64_t start) const {
    const Limits& limits = values_.limits[c.limit];
    return limits.peer == rank && (c.due.contributors > 1 || limits.by == c.due.first) && limits.shift <= -start;
  }
  std::array<std::int64_t, 4> group_of(const Counted& c) const {
    const Limits& limits = values_.limits[c.limit];
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
  Values values_;
  FlatMap<std::uint64_t> expected_;
  std::vector<Part> parts_;                 // of the piece under way
  std::vector<Counted> counted_;            // of one rank
  bool gathers_ = true, exchanges_ = true;  // what counts of peers may mean
};

}  // namespace

void check_sums(Model& model, const std::vector<std::int32_t>& order, const Seen& seen) {
  Promises(model, seen).run(order);
}

}  // namespace weft::verifying
