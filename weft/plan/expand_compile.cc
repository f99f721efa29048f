// Compiles a plan for expansion: every expression becomes a formula over slots, every reference is checked once.
#include <algorithm>

#include "weft/base/index.h"
#include "weft/plan/expander_impl.h"
#include "weft/plan/structure.h"

namespace weft {

using namespace expanding;  // NOLINT: the private half of this class

namespace {

CompiledBox compile(const BoxRule& box, const Scope& scope) {
  CompiledBox out;
  for (const Expr& e : box.lo) out.lo.emplace_back(e, scope);
  for (const Expr& e : box.hi) out.hi.emplace_back(e, scope);
  return out;
}

CompiledPiece compile(const PieceRule& p, const Scope& scope) {
  const auto by_j = [](const Expr& e) { return e.mentions("j"); };
  const bool one_box =
      std::none_of(p.box.lo.begin(), p.box.lo.end(), by_j) && std::none_of(p.box.hi.begin(), p.box.hi.end(), by_j);
  return {&p, compile(p.box, scope), {p.rank, scope}, {p.each, scope}, {p.when, scope}, by_j(p.when), one_box};
}

std::vector<CompiledPiece> compile(const std::vector<PieceRule>& pieces, const Scope& scope) {
  std::vector<CompiledPiece> out;
  for (const PieceRule& p : pieces) out.push_back(compile(p, scope));
  return out;
}

Scope with_lets(Scope scope, const std::vector<Let>& lets, std::vector<Formula>* out) {
  for (const Let& let : lets) {
    out->emplace_back(let.value, scope);
    scope.names.push_back(let.name);
  }
  return scope;
}

}  // namespace

void Expander::Impl::compile_all() {
  check_structure(plan);
  scope.names = {"r", "N", "s", "j", "i"};
  for (const Param& p : plan.params) {
    scope.names.push_back(p.name);
    params.push_back(p.value);
  }
  for (const NamedTable& t : plan.tables) {
    scope.tables.push_back(t.name);
    tables.push_back(t.values);
  }
  for (const Buffer& b : plan.buffers) {
    shapes.emplace_back();
    for (const Expr& e : b.shape) shapes.back().emplace_back(e, scope);
    block_rows.emplace_back(b.packing.block_rows, scope);
  }
  for (const Counter& c : plan.counters) {
    counts.emplace_back(c.count, scope);
    totals.emplace_back(c.total, scope);
    totals_differ.push_back(c.total.mentions("i"));
  }
  for (const Rule& rule : plan.rules) compile_rule(rule);
  for (const Owed& o : plan.owed) {
    CompiledOwed out;
    const Scope inner = with_lets(scope, o.let, &out.let);
    for (const Expr& e : o.origin) out.origin.emplace_back(e, inner);
    out.count = {o.count, scope};
    out.when = {o.when, inner};
    out.first = {o.first, inner};
    out.contributors = {o.contributors, inner};
    out.ranks_per_host = {o.ranks_per_host, inner};
    out.piece = compile(o.piece, inner);
    owed.push_back(std::move(out));
  }
  place_counters();
}

void Expander::Impl::compile_rule(const Rule& rule) {
  CompiledRule out;
  const Scope inner = with_lets(scope, rule.let, &out.let);
  out.count = {rule.count, scope};
  out.when = {rule.when, inner};
  out.finish = {rule.finish, inner};
  out.limit_peer = {rule.limit_peer, inner};
  out.order = {rule.order, inner};
  out.order_step = {rule.order_step, inner};
  out.box = compile(rule.box, inner);
  for (const WaitRule& w : rule.waits)
    out.waits.push_back(
        {&w, {w.index, inner}, {w.at, inner}, {w.per, inner}, {w.each, inner}, {w.when, inner}, w.when.mentions("j")});
  out.reads = compile(rule.reads, inner);
  out.sources = compile(rule.sources, inner);
  out.targets = compile(rule.targets, inner);
  for (const SignalRule& g : rule.signals)
    out.signals.push_back({&g,
                           {g.rank, inner},
                           {g.index, inner},
                           {g.per, inner},
                           {g.each, inner},
                           {g.when, inner},
                           g.when.mentions("j")});
  rules.push_back(std::move(out));
}

void Expander::Impl::place_counters() {
  for (int rank = 0; rank < plan.num_ranks; ++rank) {
    const Slots slots = slots_for(rank);
    std::int64_t base = 0;
    for (std::size_t f = 0; f < counts.size(); ++f) {
      counter_bases.push_back(base);
      const std::int64_t count = eval(counts[f], slots);
      if (count < 0 || count > kMaxItems - base)
        bad_input("counter \"{}\" has {} instances on rank {}; use 0 to {}", plan.counters[f].name, count, rank,
                  kMaxItems);
      base += count;
    }
    counter_bases.push_back(base);
  }
}

}  // namespace weft
