// Compiles a plan for expansion: every expression becomes a formula over slots, every reference is checked once.
#include <algorithm>

#include "weft/base/index.h"
#include "weft/plan/expander_impl.h"
#include "weft/plan/structure.h"

namespace weft {

using namespace expanding;  // NOLINT: the private half of this class

namespace {

// Compiles expressions in one scope and charges them to a budget.
class Compiler {
 public:
  Compiler(Scope scope, Budget* budget) : scope_(std::move(scope)), budget_(budget) {}

  Formula formula(const Expr& expr) const {
    Formula out(expr, scope_);
    if (budget_ != nullptr) budget_->spend(std::ssize(out), kTurn + kName * std::ssize(scope_.names));
    return out;
  }
  std::vector<Formula> formulas(const std::vector<Expr>& exprs) const {
    std::vector<Formula> out;
    for (const Expr& e : exprs) out.push_back(formula(e));
    return out;
  }
  CompiledBox box(const BoxRule& box) const { return {formulas(box.lo), formulas(box.hi)}; }
  CompiledWait wait(const WaitRule& w) const {
    return {
        &w, formula(w.index), formula(w.at), formula(w.per), formula(w.each), formula(w.when), w.when.mentions("j")};
  }
  CompiledSignal signal(const SignalRule& g) const {
    return {
        &g, formula(g.rank), formula(g.index), formula(g.per), formula(g.each), formula(g.when), g.when.mentions("j")};
  }
  CompiledPiece piece(const PieceRule& p) const {
    const auto by_j = [](const Expr& e) { return e.mentions("j"); };
    const bool one_box =
        std::none_of(p.box.lo.begin(), p.box.lo.end(), by_j) && std::none_of(p.box.hi.begin(), p.box.hi.end(), by_j);
    return {&p, box(p.box), formula(p.rank), formula(p.each), formula(p.when), by_j(p.when), one_box};
  }
  std::vector<CompiledPiece> pieces(const std::vector<PieceRule>& pieces) const {
    std::vector<CompiledPiece> out;
    for (const PieceRule& p : pieces) out.push_back(priced(piece(p)));
    return out;
  }
  template <typename Item>
  static Item priced(Item item) {
    item.cost = cost_of(item.instructions());
    return item;
  }
  static std::int64_t cost_of(std::size_t instructions) {
    return kTurn + kInstruction * static_cast<std::int64_t>(instructions);
  }

  // The same with a rule's `let`s, each in the scope of those before it.
  Compiler with_lets(const std::vector<Let>& lets, std::vector<Formula>* out) const {
    Compiler inner = *this;
    for (const Let& let : lets) {
      out->push_back(inner.formula(let.value));
      inner.scope_.names.push_back(let.name);
    }
    return inner;
  }

 private:
  Scope scope_;
  Budget* budget_;
};

// A turn of a rule also asks each of its lists how long it is, and whether it is wanted.
template <typename List>
std::size_t heads_of(const List& list) {
  std::size_t sum = 0;
  for (const auto& item : list) sum += 4 + item.each.size() + item.when.size();
  return sum;
}

}  // namespace

void Expander::Impl::compile_all() {
  check_structure(plan);
  scope = scope_of(plan);
  for (const Param& p : plan.params) params.push_back(p.value);
  for (const NamedTable& t : plan.tables) tables.push_back(t.values);
  const Compiler compiler(scope, budget);
  for (const Buffer& b : plan.buffers) {
    shapes.push_back(compiler.formulas(b.shape));
    block_rows.push_back(compiler.formula(b.packing.block_rows));
  }
  for (const Counter& c : plan.counters) {
    counts.push_back(compiler.formula(c.count));
    totals.push_back(compiler.formula(c.total));
    totals_differ.push_back(c.total.mentions("i"));
  }
  for (const Rule& rule : plan.rules) compile_rule(rule);
  for (const Owed& o : plan.owed) compile_owed(o);
  place_counters();
}

void Expander::Impl::compile_owed(const Owed& o) {
  CompiledOwed out;
  const Compiler outer(scope, budget), inner = outer.with_lets(o.let, &out.let);
  out.origin = inner.formulas(o.origin);
  out.count = outer.formula(o.count);
  out.when = inner.formula(o.when);
  out.first = inner.formula(o.first);
  out.contributors = inner.formula(o.contributors);
  out.ranks_per_host = inner.formula(o.ranks_per_host);
  out.piece = inner.piece(o.piece);
  out.cost = 4 * kTurn + Compiler::cost_of(instructions_of(out.let) + instructions_of(out.origin) + out.when.size() +
                                           out.first.size() + out.contributors.size() + out.ranks_per_host.size() +
                                           out.piece.instructions());
  owed.push_back(std::move(out));
}

void Expander::Impl::compile_rule(const Rule& rule) {
  CompiledRule out;
  const Compiler outer(scope, budget), inner = outer.with_lets(rule.let, &out.let);
  out.count = outer.formula(rule.count);
  out.when = inner.formula(rule.when);
  out.finish = inner.formula(rule.finish);
  out.limit_peer = inner.formula(rule.limit_peer);
  out.order = inner.formula(rule.order);
  out.order_step = inner.formula(rule.order_step);
  out.box = inner.box(rule.box);
  for (const WaitRule& w : rule.waits) out.waits.push_back(Compiler::priced(inner.wait(w)));
  out.reads = inner.pieces(rule.reads);
  out.sources = inner.pieces(rule.sources);
  out.targets = inner.pieces(rule.targets);
  for (const SignalRule& g : rule.signals) out.signals.push_back(Compiler::priced(inner.signal(g)));
  out.cost = 2 * kTurn + Compiler::cost_of(instructions_of(out.let) + out.when.size() + out.finish.size() +
                                           out.limit_peer.size() + out.order.size() + out.order_step.size() +
                                           out.box.instructions() + heads_of(out.waits) + heads_of(out.reads) +
                                           heads_of(out.sources) + heads_of(out.targets) + heads_of(out.signals));
  rules.push_back(std::move(out));
}

void Expander::Impl::place_counters() {
  spend(plan.num_ranks,
        slots_cost() + kTurn * std::ssize(counts) + kInstruction * static_cast<std::int64_t>(instructions_of(counts)));
  if (budget != nullptr) budget->hold(plan.num_ranks * static_cast<std::int64_t>(counts.size() + 1) * 3 * 8);
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
