// The proof: a plan's rules are expanded once more, as the expander does, with the rank unknown. Loops, sizes, waits
// and shares must come out as plain numbers, the same for all ranks; ranks as "r plus digits"; and names of counters as
// zones allow (counter_zones.h). The first that does not ends the proof.
#include "weft/sim/net/symmetry.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/sim/net/counter_zones.h"
#include "weft/sim/net/symbolic.h"

namespace weft::netsim {
namespace {

struct NoProof {};

enum Slot { kRankSlot, kRanksSlot, kLoopSlot, kInnerSlot, kIndexSlot, kFirstParamSlot };

using Formulas = std::vector<SymbolicFormula>;

struct BoxFormulas {
  Formulas lo, hi;
};
BoxFormulas box_formulas(const BoxRule& box, const Scope& scope) {
  BoxFormulas out;
  for (const Expr& e : box.lo) out.lo.emplace_back(e, scope);
  for (const Expr& e : box.hi) out.hi.emplace_back(e, scope);
  return out;
}

struct ListFormulas {
  SymbolicFormula each, when;
  bool guards_each;  // `when` depends on j

  ListFormulas(const Expr& each_of, const Expr& when_of, const Scope& scope)
      : each(each_of, scope), when(when_of, scope), guards_each(when_of.mentions("j")) {}
};
struct WaitFormulas {
  const WaitRule* rule;
  ListFormulas list;
  SymbolicFormula index, at, per;
};
struct PieceFormulas {
  ListFormulas list;
  SymbolicFormula rank;
  BoxFormulas box;
};
struct SignalFormulas {
  const SignalRule* rule;
  ListFormulas list;
  SymbolicFormula rank, index, per;
};

struct RuleFormulas {
  Formulas let;
  Scope inner;
  SymbolicFormula count, when, finish, order, order_step;
  BoxFormulas box;
  std::vector<WaitFormulas> waits;
  std::vector<PieceFormulas> own, targets;  // own: reads and sources
  std::vector<SignalFormulas> signals;

  RuleFormulas(const Rule& rule, const Scope& scope)
      : inner(with_lets(rule, scope, &let)),
        count(rule.count, scope),
        when(rule.when, inner),
        finish(rule.finish, inner),
        order(rule.order, inner),
        order_step(rule.order_step, inner),
        box(box_formulas(rule.box, inner)) {
    for (const WaitRule& w : rule.waits)
      waits.push_back({&w, {w.each, w.when, inner}, {w.index, inner}, {w.at, inner}, {w.per, inner}});
    for (const auto* list : {&rule.reads, &rule.sources})
      for (const PieceRule& p : *list) own.push_back(piece(p));
    for (const PieceRule& p : rule.targets) targets.push_back(piece(p));
    for (const SignalRule& g : rule.signals)
      signals.push_back({&g, {g.each, g.when, inner}, {g.rank, inner}, {g.index, inner}, {g.per, inner}});
  }

 private:
  static Scope with_lets(const Rule& rule, Scope scope, Formulas* out) {
    for (const Let& let : rule.let) {
      out->emplace_back(let.value, scope);
      scope.names.push_back(let.name);
    }
    return scope;
  }
  PieceFormulas piece(const PieceRule& p) const {
    return {{p.each, p.when, inner}, {p.rank, inner}, box_formulas(p.box, inner)};
  }
};

class Proof {
 public:
  Proof(const Plan& plan, const Expander& expander, const Program& zero, Digits digits, bool whole)
      : plan_(plan), expander_(expander), zero_(zero), digits_(std::move(digits)) {
    const Scope scope = scope_of(plan);
    slots_.push(Symbolic::rank(digits_));
    slots_.push(plan.num_ranks);
    for (int i = 0; i < 3; ++i) slots_.push(0);
    for (const Param& p : plan.params) slots_.push(p.value);
    for (const NamedTable& t : plan.tables) tables_.push_back(t.values);
    for (const Rule& rule : plan.rules) rules_.emplace_back(rule, scope);
    for (int f = 0; f < int_size(plan.counters); ++f)
      zones_.emplace_back(digits_, expander.counter_base(f + 1, 0) - expander.counter_base(f, 0), whole);
  }

  PlanSymmetry prove() {
    check_ranks();
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) expand(rule);
    if (next_action_ != zero_.actions.size() || raised_.size() != zero_.signals.size()) throw NoProof{};
    for (CounterZones& zones : zones_)
      if (!zones.are_consistent()) throw NoProof{};
    return {digits_, std::move(raised_)};
  }

 private:
  // What does not come from rules: as many counters on every rank, producers of one width.
  void check_ranks() const {
    for (const Producer& p : plan_.producers)
      if (!p.n_of.empty()) throw NoProof{};
    for (int rank = 1; rank < plan_.num_ranks; ++rank)
      for (int f = 0; f <= int_size(plan_.counters); ++f)
        if (expander_.counter_base(f, rank) != expander_.counter_base(f, 0)) throw NoProof{};
  }

  Symbolic value(const SymbolicFormula& formula) const { return formula.eval(slots_, tables_, digits_); }
  std::int64_t constant(const SymbolicFormula& formula) const {
    const Symbolic out = value(formula);
    if (!out.is_constant()) throw NoProof{};
    return out.b();
  }

  void expand(std::size_t index) {
    const RuleFormulas& rule = rules_[index];
    const std::int64_t count = constant(rule.count);
    const std::size_t outer = slots_.size();
    for (std::int64_t s = 0; s < count; ++s) {
      slots_.set(kLoopSlot, s);
      for (const SymbolicFormula& let : rule.let) slots_.push(value(let));
      if (constant(rule.when) != 0) check_action(index, s);
      slots_.shrink(outer);
    }
    slots_.set(kLoopSlot, 0);
  }

  void check_action(std::size_t index, std::int64_t s) {
    const RuleFormulas& rule = rules_[index];
    if (next_action_ == zero_.actions.size()) throw NoProof{};
    const Action& action = zero_.actions[next_action_++];
    if (action.rule != static_cast<std::int32_t>(index) || action.s != s) throw NoProof{};
    check_size(rule.box, action.box);
    constant(rule.finish);
    constant(rule.order);
    constant(rule.order_step);
    for (const WaitFormulas& wait : rule.waits) check_wait(wait, action);
    for (const auto* list : {&rule.own, &rule.targets})
      for (const PieceFormulas& piece : *list)
        for_each(piece.list, [&] {
          Symbolic rank = value(piece.rank);
          shift_of(rank);
          for (std::size_t d = 0; d < piece.box.lo.size(); ++d) size_of(piece.box.lo[d], piece.box.hi[d]);
        });
    for (const SignalFormulas& signal : rule.signals) for_each(signal.list, [&] { check_signal(signal, action); });
  }

  template <typename Item>
  void for_each(const ListFormulas& list, Item&& item) {
    const std::int64_t each = constant(list.each);
    if (!list.guards_each && constant(list.when) == 0) return;
    for (std::int64_t j = 0; j < each; ++j) {
      slots_.set(kInnerSlot, j);
      if (!list.guards_each || constant(list.when) != 0) item();
    }
    slots_.set(kInnerSlot, 0);
  }

  std::int64_t size_of(const SymbolicFormula& lo, const SymbolicFormula& hi) const {
    Symbolic size = value(hi);
    const Symbolic low = value(lo);
    if (!size.is_known() || !low.is_known()) throw NoProof{};
    size.add(-low.b());
    for (const Term& t : low.terms()) size.add({-t.a, t.digit, t.e}, digits_);
    if (!size.is_constant()) throw NoProof{};
    return size.b();
  }
  void check_size(const BoxFormulas& box, const Box& expanded) const {
    for (int d = 0; d < expanded.dims; ++d)
      if (size_of(box.lo[at(d)], box.hi[at(d)]) != expanded.size(d)) throw NoProof{};
  }

  // The rank as "r plus digits": those digits, as a rank.
  int shift_of(const Symbolic& in) const {
    const Symbolic rank = in.positive(digits_);
    if (!rank.is_known() || rank.b() != 0) throw NoProof{};
    int shift = 0, found = 0, expected = 0;
    for (int d = 0; d < digits_.num(); ++d) expected += digits_.size(d) > 1;
    for (const Term& t : rank.terms()) {
      if (t.a != digits_.stride(t.digit)) throw NoProof{};
      shift += t.e * digits_.stride(t.digit);
      ++found;
    }
    if (found != expected) throw NoProof{};
    return shift;
  }

  static std::int64_t span_of(std::int64_t per, const Action& action) {
    return per == 0 ? 1 : ceil_div(action.lanes, per);
  }

  // A list counts as a whole, if all of it waits for the same.
  void check_wait(const WaitFormulas& wait, const Action& action) {
    std::vector<NamedCounters> list;
    std::int64_t first_at = -1;
    bool alike = true;
    for_each(wait.list, [&] {
      const std::int64_t wanted = constant(wait.at), per = constant(wait.per);
      const Symbolic index = value(wait.index);
      if (!index.is_known()) throw NoProof{};
      if (wait.rule->lag > 0 || wanted == 0 || action.lanes == 0) return;  // it is met
      alike = alike && (first_at < 0 || first_at == wanted);
      first_at = wanted;
      list.push_back({index, span_of(per, action)});
    });
    if (list.empty()) return;
    CounterZones& zones = zones_[at(wait.rule->counter)];
    if (alike) return zones.add_waits(std::move(list));
    for (const NamedCounters& one : list) zones.add_waits({one});
  }

  // Seen from the receiver: its digits are the sender's plus the shift.
  void check_signal(const SignalFormulas& signal, const Action& action) {
    const int shift = shift_of(value(signal.rank));
    const std::int64_t per = constant(signal.per);
    const Symbolic index = value(signal.index).positive(digits_);
    if (!index.is_known()) throw NoProof{};
    const int family = signal.rule->counter;
    std::int64_t name = index.b();
    for (const Term& t : index.terms()) {
      const int size = digits_.size(t.digit);
      name += t.a * ((t.e - digits_.digit(shift, t.digit) + size) % size);
    }
    const std::int64_t span = span_of(per, action);
    if (name < 0 || name + span > expander_.counter_base(family + 1, 0) - expander_.counter_base(family, 0))
      throw NoProof{};
    raised_.push_back(static_cast<std::int32_t>(expander_.counter_base(family, 0) + name));
    if (action.lanes == 0) return;  // it raises nothing
    zones_[at(family)].add_signal({index, span, per <= 1 || action.lanes % per == 0});
  }

  const Plan& plan_;
  const Expander& expander_;
  const Program& zero_;
  const Digits digits_;
  std::vector<RuleFormulas> rules_;
  std::vector<Table> tables_;
  Slots slots_;
  std::vector<CounterZones> zones_;  // of every family
  std::vector<std::int32_t> raised_;
  std::size_t next_action_ = 0;
};

std::optional<PlanSymmetry> prove(const Plan& plan, const Expander& expander, const Program& zero,
                                  const std::vector<int>& sizes, bool whole) {
  try {
    return Proof(plan, expander, zero, Digits(sizes), whole).prove();
  } catch (const NoProof&) {
    return std::nullopt;
  } catch (const Error&) {  // an expression that has no value for some rank
    return std::nullopt;
  }
}

}  // namespace

std::optional<PlanSymmetry> plan_symmetry(const Plan& plan, const Expander& expander, const Program& zero,
                                          const Topology& topology, bool whole) {
  const int n = plan.num_ranks;
  std::vector<std::vector<int>> candidates{{n}};
  std::vector<int> dims;
  for (const Param& p : plan.params) {
    if (p.name == "L" && p.value > 1 && p.value < n && n % p.value == 0)  // as two-level routes have it
      candidates.push_back({n / static_cast<int>(p.value), static_cast<int>(p.value)});
    if (p.name == fmt::format("n{}", dims.size()) && p.value > 1 && p.value < n)  // a torus's dimensions
      dims.push_back(static_cast<int>(p.value));
  }
  if (std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>()) == n) candidates.push_back(dims);
  if (topology.num_ranks == n && topology.dims.size() > 1) candidates.push_back(topology.dims);
  if (n > 2 && (n & (n - 1)) == 0) {
    std::vector<int> twos;
    for (int rest = n; rest > 1; rest /= 2) twos.push_back(2);
    candidates.push_back(twos);
  }
  for (const std::vector<int>& sizes : candidates)
    if (auto found = prove(plan, expander, zero, sizes, whole)) return found;
  return std::nullopt;
}

}  // namespace weft::netsim
