#include "weft/plan/compose_owed.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/plan/program.h"
#include "weft/plan/rename.h"

namespace weft {
namespace {

const Expr kLoopName = Expr::name("s");

// The promises alone, so that they can be expanded.
Plan promises(const Plan& plan, std::vector<Owed> owed) {
  Plan out = plan;
  out.rules.clear();
  out.counters.clear();
  out.owed = std::move(owed);
  return out;
}

std::int64_t volume(const Expander& expander) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < expander.num_ranks(); ++rank)
    for (const Expander::Due& due : expander.owed(rank)) sum += due.piece.box.volume();
  return sum;
}

Expr both_of(const Expr& a, const Expr& b) { return a.is_number(1) ? b : b.is_number(1) ? a : both(a, b); }
Expr moved(const Expr& at, const Expr& from, const Expr& to) { return from.str() == to.str() ? at : at + (to - from); }

class Through {
 public:
  Through(const Plan& plan, const Plan& first, int joined) : plan_(plan), first_(first), joined_(joined) {
    for (const Owed& owed : first.owed)
      if (owed.piece.buffer == joined) made_.push_back(owed);
  }

  void add(const Owed& wanted, std::vector<Owed>* out) {
    if (wanted.origin.size() != first_.buffers[joined_].shape.size())
      bad_input("\"{}\" owes parts of the joined buffer in {} dimensions; it has {}", plan_.name, wanted.origin.size(),
                first_.buffers[joined_].shape.size());
    const Expander expander(promises(plan_, {wanted}));
    const bool sums = contributors(expander) > 1;
    if (sums) require_leaves();
    const bool inside = made_.size() == 1 && made_[0].count.is_number(1) && all_inside(expander);
    std::vector<Owed> added;
    for (const Owed& made : made_) added.push_back(chained(wanted, made, sums, inside));
    const std::int64_t want = volume(expander), have = volume(Expander(promises(plan_, added)));
    if (want != have)
      bad_input(
          "\"{}\" needs {} elements of \"{}\", of which \"{}\" owes {}; join an output that is owed as a "
          "whole",
          plan_.name, want, first_.buffers[joined_].name, first_.name, have);
    out->insert(out->end(), added.begin(), added.end());
  }

 private:
  static int contributors(const Expander& expander) {
    int most = 1;
    for (int rank = 0; rank < expander.num_ranks(); ++rank)
      for (const Expander::Due& due : expander.owed(rank)) most = std::max(most, due.contributors);
    return most;
  }

  // A sum of the joined buffers of several ranks can be told only if each of them holds just its own rank's
  // tiles.
  void require_leaves() const {
    const Expander expander(promises(first_, made_));
    const auto dues = expander.owed(0);
    for (int rank = 0; rank < expander.num_ranks(); ++rank) {
      const auto here = expander.owed(rank);
      bool ok = here.size() == dues.size();
      for (std::size_t i = 0; ok && i < here.size(); ++i)
        ok = here[i].contributors == 1 && here[i].first == rank && !here[i].finished &&
             here[i].piece.box == dues[i].piece.box && here[i].origin == dues[i].origin;
      if (!ok)
        bad_input(
            "\"{}\" would sum what \"{}\" has already summed, moved or finished; only copies can follow it, "
            "or sums of "
            "outputs that stay where they are made",
            plan_.name, first_.name);
    }
  }

  // Does every wanted piece lie inside the one piece that its contributor is owed?
  bool all_inside(const Expander& expander) const {
    const Expander one(promises(first_, made_));
    std::vector<std::vector<Expander::Due>> dues;
    for (int rank = 0; rank < expander.num_ranks(); ++rank) dues.push_back(one.owed(rank));
    for (int rank = 0; rank < expander.num_ranks(); ++rank)
      for (const Expander::Due& due : expander.owed(rank)) {
        Box box = due.piece.box;
        for (int d = 0; d < box.dims; ++d) box.lo[d] = due.origin[d], box.hi[d] = due.origin[d] + due.piece.box.size(d);
        if (dues[due.first].size() != 1 || !contains(dues[due.first][0].piece.box, box)) return false;
      }
    return true;
  }

  // `wanted` of rank q is made from what `made` says of rank q: loops one inside the other, boxes
  // intersected.
  Owed chained(const Owed& wanted, const Owed& made, bool sums, bool inside) const {
    if (made.count.mentions("r"))
      bad_input("\"{}\" owes a number of pieces that differs by rank; it cannot be composed", first_.name);
    if (made.finished && wanted.finished)
      bad_input("\"{}\" would apply two epilogues to one output; leave one of them out", plan_.name);
    Renaming outer, inner;
    if (!made.count.is_number(1)) {
      outer.names["s"] = wanted.count.is_number(1) ? Expr(0) : kLoopName / made.count;
      inner.names["s"] = wanted.count.is_number(1) ? kLoopName : kLoopName % made.count;
    } else {
      inner.names["s"] = 0;
    }
    Owed out;
    out.count = wanted.count * made.count;
    add_lets(wanted.let, &outer, &out.let);
    const Expr from = renamed(wanted.first, outer);
    inner.names["r"] = from;
    if (from.node().op != Expr::Op::name && from.node().op != Expr::Op::number) {
      const std::string q = free_name("q", out.let);
      out.let.push_back({q, from});
      inner.names["r"] = Expr::name(q);
    }
    add_lets(made.let, &inner, &out.let);
    out.when = both_of(renamed(wanted.when, outer), renamed(made.when, inner));
    out.piece = renamed(wanted.piece, outer);
    place(wanted, made, {outer, inner}, inside, &out);
    out.first = sums ? from : renamed(made.first, inner);
    out.contributors = sums ? renamed(wanted.contributors, outer) : renamed(made.contributors, inner);
    out.ranks_per_host = sums ? renamed(wanted.ranks_per_host, outer) : renamed(made.ranks_per_host, inner);
    out.leaf = made.leaf;
    out.finished = made.finished || wanted.finished;
    if (wanted.finished) out.epilogue = wanted.epilogue;
    if (made.finished) out.epilogue = made.epilogue;
    if (out.epilogue == std::max(out.leaf, 0)) out.epilogue = -1;  // as understood
    return out;
  }

  // Lets of two scopes stand in one list here, so none may hide another or a parameter.
  std::string free_name(std::string name, const std::vector<Let>& lets) const {
    const auto taken = [&](const auto& other) { return other.name == name; };
    while (std::any_of(lets.begin(), lets.end(), taken) || std::any_of(plan_.params.begin(), plan_.params.end(), taken))
      name += ".1";
    return name;
  }
  void add_lets(const std::vector<Let>& lets, Renaming* to, std::vector<Let>* out) const {
    for (const Let& let : lets) {
      const std::string name = free_name(let.name, *out);
      out->push_back({name, renamed(let.value, *to)});
      to->names[let.name] = Expr::name(name);
    }
  }

  struct Scopes {
    const Renaming &outer, &inner;
  };
  static void place(const Owed& wanted, const Owed& made, const Scopes& in, bool inside, Owed* out) {
    const BoxRule held = renamed(made.piece.box, in.inner);
    BoxRule& box = out->piece.box;
    for (std::size_t d = 0; d < wanted.origin.size(); ++d) {
      const Expr begin = renamed(wanted.origin[d], in.outer), origin = renamed(made.origin[d], in.inner);
      if (inside) {
        out->origin.push_back(moved(origin, held.lo[d], begin));
        continue;
      }
      const Expr end = begin + (box.hi[d] - box.lo[d]);
      const Expr lo = max(begin, held.lo[d]), hi = max(lo, min(end, held.hi[d])), shift = box.lo[d] - begin;
      box.lo[d] = shift + lo;
      box.hi[d] = shift + hi;
      out->origin.push_back(moved(origin, held.lo[d], lo));
    }
  }

  const Plan &plan_, &first_;
  int joined_;
  std::vector<Owed> made_;
};

}  // namespace

std::vector<Owed> owed_through(const Plan& plan, const Plan& first, int joined, const std::vector<Owed>& owed) {
  std::vector<Owed> out;
  Through through(plan, first, joined);
  for (const Owed& wanted : owed) through.add(wanted, &out);
  return out;
}

}  // namespace weft
