// Expansion: rules and expressions in, one rank's flat program out.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/plan/program.h"

namespace weft {
namespace {

enum Slot { kRank, kRanks, kLoop, kInner, kIndex, kFirstParam };

constexpr std::int64_t kMaxItems = std::int64_t{1} << 25;     // of one rank's program: a hostile file cannot fill the memory
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;  // of one buffer

struct CompiledBox {
  std::vector<Formula> lo, hi;
};
struct CompiledWait {
  const WaitRule* rule;
  Formula index, at, per, each, when;
};
struct CompiledPiece {
  const PieceRule* rule;
  CompiledBox box;
  Formula rank, each, when;
};
struct CompiledSignal {
  const SignalRule* rule;
  Formula rank, index, per, each, when;
};
struct CompiledRule {
  std::vector<Formula> let;
  Formula count, when, finish, limit_peer;
  CompiledBox box;
  std::vector<CompiledWait> waits;
  std::vector<CompiledPiece> reads, sources, targets;
  std::vector<CompiledSignal> signals;
};
struct CompiledOwed {
  std::vector<Formula> let, origin;
  Formula count, when, first, contributors;
  CompiledPiece piece;
};

CompiledBox compile(const BoxRule& box, const Scope& scope) {
  if (box.lo.size() != box.hi.size() || box.lo.size() > static_cast<std::size_t>(kMaxDims))
    bad_input("a box has {} lower and {} upper bounds; give as many of each, at most {}", box.lo.size(), box.hi.size(),
              kMaxDims);
  CompiledBox out;
  for (const Expr& e : box.lo) out.lo.emplace_back(e, scope);
  for (const Expr& e : box.hi) out.hi.emplace_back(e, scope);
  return out;
}

CompiledPiece compile(const PieceRule& p, const Scope& scope) {
  return {&p, compile(p.box, scope), {p.rank, scope}, {p.each, scope}, {p.when, scope}};
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

struct Expander::Impl {
  Plan plan;
  Scope scope;
  std::vector<Table> tables;
  std::vector<std::int64_t> params;
  std::vector<CompiledRule> rules;
  std::vector<CompiledOwed> owed;
  std::vector<std::vector<Formula>> shapes;
  std::vector<Formula> block_rows, counts, totals;
  std::vector<std::int64_t> counter_bases;  // [rank * (families + 1) + family]

  using Slots = std::vector<std::int64_t>;

  std::int64_t eval(const Formula& f, const Slots& slots) const { return f.eval(slots, tables); }

  Slots slots_for(int rank) const {
    Slots slots{rank, plan.num_ranks, 0, 0, 0};
    slots.insert(slots.end(), params.begin(), params.end());
    return slots;
  }

  void compile_all();
  void compile_rule(const Rule& rule);
  void place_counters();
  void check_rank(std::int64_t rank, const char* what) const {
    if (rank < 0 || rank >= plan.num_ranks)
      bad_input("plan \"{}\" names {} rank {}, but there are {}", plan.name, what, rank, plan.num_ranks);
  }
  int counter_id(int family, std::int64_t index, std::int64_t span, int rank) const;
  Box box(const CompiledBox& box, const Slots& slots) const;
  void add_lets(const std::vector<Formula>& lets, Slots* slots) const {
    for (const Formula& f : lets) slots->push_back(eval(f, *slots));
  }
  template <typename Item, typename Add>
  void for_each(const Item& item, Slots* slots, Add&& add) const;
  Range add_pieces(const std::vector<CompiledPiece>& pieces, Slots* slots, Program* out, const Action& action) const;
  void add_action(std::size_t rule, std::int64_t s, Slots* slots, Program* out) const;
};

void Expander::Impl::compile_all() {
  if (plan.num_ranks < 1 || plan.num_ranks > 65536)
    bad_input("plan \"{}\" is for {} ranks; use 1 to 65536", plan.name, plan.num_ranks);
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
    if (b.depth < 1 || b.depth > 64) bad_input("buffer \"{}\" has depth {}; use 1 to 64", b.name, b.depth);
    if (b.shape.empty() || b.shape.size() > static_cast<std::size_t>(kMaxDims))
      bad_input("buffer \"{}\" has {} dimensions; use 1 to {}", b.name, b.shape.size(), kMaxDims);
    shapes.emplace_back();
    for (const Expr& e : b.shape) shapes.back().emplace_back(e, scope);
    block_rows.emplace_back(b.packing.block_rows, scope);
  }
  for (const Counter& c : plan.counters) {
    counts.emplace_back(c.count, scope);
    totals.emplace_back(c.total, scope);
  }
  for (const Rule& rule : plan.rules) compile_rule(rule);
  for (const Owed& o : plan.owed) {
    CompiledOwed out;
    const Scope inner = with_lets(scope, o.let, &out.let);
    for (const Expr& e : o.origin) out.origin.emplace_back(e, inner);
    out.count = {o.count, inner};
    out.when = {o.when, inner};
    out.first = {o.first, inner};
    out.contributors = {o.contributors, inner};
    out.piece = compile(o.piece, inner);
    owed.push_back(std::move(out));
  }
  place_counters();
}

void Expander::Impl::compile_rule(const Rule& rule) {
  const int buffers = static_cast<int>(plan.buffers.size());
  const int families = static_cast<int>(plan.counters.size());
  for (const auto* list : {&rule.reads, &rule.sources, &rule.targets})
    for (const PieceRule& p : *list)
      if (p.buffer < 0 || p.buffer >= buffers) bad_input("rule \"{}\" names buffer {} of {}", rule.name, p.buffer, buffers);
  for (const WaitRule& w : rule.waits)
    if (w.counter < 0 || w.counter >= families || w.lag < 0 || w.lag > 64)
      bad_input("rule \"{}\" waits for counter {} with lag {}; there are {} counters, lags are 0 to 64", rule.name,
                w.counter, w.lag, families);
  for (const SignalRule& g : rule.signals)
    if (g.counter < 0 || g.counter >= families)
      bad_input("rule \"{}\" signals counter {} of {}", rule.name, g.counter, families);
  if (rule.kind == ActionKind::step &&
      (rule.producer < 0 || rule.producer >= static_cast<int>(plan.producers.size()) || rule.box.lo.size() != 2))
    bad_input("step \"{}\" needs a producer of the plan and a box of rows and columns", rule.name);
  CompiledRule out;
  const Scope inner = with_lets(scope, rule.let, &out.let);
  out.count = {rule.count, scope};
  out.when = {rule.when, inner};
  out.finish = {rule.finish, inner};
  out.limit_peer = {rule.limit_peer, inner};
  out.box = compile(rule.box, inner);
  for (const WaitRule& w : rule.waits)
    out.waits.push_back({&w, {w.index, inner}, {w.at, inner}, {w.per, inner}, {w.each, inner}, {w.when, inner}});
  out.reads = compile(rule.reads, inner);
  out.sources = compile(rule.sources, inner);
  out.targets = compile(rule.targets, inner);
  for (const SignalRule& g : rule.signals)
    out.signals.push_back({&g, {g.rank, inner}, {g.index, inner}, {g.per, inner}, {g.each, inner}, {g.when, inner}});
  rules.push_back(std::move(out));
}

void Expander::Impl::place_counters() {
  for (int rank = 0; rank < plan.num_ranks; ++rank) {
    const Slots slots = slots_for(rank);
    std::int64_t base = 0;
    for (std::size_t f = 0; f < counts.size(); ++f) {
      counter_bases.push_back(base);
      const std::int64_t count = eval(counts[f], slots);
      if (count < 0 || base + count > kMaxItems)
        bad_input("counter \"{}\" has {} instances on rank {}; use 0 to {}", plan.counters[f].name, count, rank, kMaxItems);
      base += count;
    }
    counter_bases.push_back(base);
  }
}

int Expander::Impl::counter_id(int family, std::int64_t index, std::int64_t span, int rank) const {
  const std::size_t at = rank * (counts.size() + 1) + family;
  const std::int64_t count = counter_bases[at + 1] - counter_bases[at];
  if (index < 0 || span < 0 || index > count - span)
    bad_input("plan \"{}\" names counter {}[{}] of rank {}, which has {} of them", plan.name, plan.counters[family].name,
              index + std::max<std::int64_t>(span, 1) - 1, rank, count);
  return static_cast<int>(counter_bases[at] + index);
}

Box Expander::Impl::box(const CompiledBox& in, const Slots& slots) const {
  Box out;
  out.dims = static_cast<int>(in.lo.size());
  for (int d = 0; d < out.dims; ++d) {
    out.lo[d] = eval(in.lo[d], slots);
    out.hi[d] = eval(in.hi[d], slots);
    if (out.lo[d] < 0 || out.hi[d] < out.lo[d] || out.hi[d] > kMaxElements)
      bad_input("plan \"{}\" has a box {} that is turned round or negative", plan.name, to_string(out));
  }
  return out;
}

template <typename Item, typename Add>
void Expander::Impl::for_each(const Item& item, Slots* slots, Add&& add) const {
  const std::int64_t each = eval(item.each, *slots);
  if (each > kMaxItems) bad_input("plan \"{}\" loops {} times in one rule; at most {}", plan.name, each, kMaxItems);
  // A guard that does not depend on j is settled once: a list of N under N actions must not cost N x N.
  const bool each_differs = item.rule->when.mentions("j");
  if (!each_differs && eval(item.when, *slots) == 0) return;
  for (std::int64_t j = 0; j < each; ++j) {
    (*slots)[kInner] = j;
    if (!each_differs || eval(item.when, *slots) != 0) add();
  }
  (*slots)[kInner] = 0;
}

Range Expander::Impl::add_pieces(const std::vector<CompiledPiece>& pieces, Slots* slots, Program* out,
                                 const Action& action) const {
  Range range{static_cast<std::int32_t>(out->pieces.size()), 0};
  for (const CompiledPiece& p : pieces)
    for_each(p, slots, [&] {
      const std::int64_t rank = eval(p.rank, *slots);
      check_rank(rank, "target");
      if (static_cast<std::int64_t>(out->pieces.size()) >= kMaxItems)
        bad_input("plan \"{}\" has more than {} pieces on rank {}", plan.name, kMaxItems, out->rank);
      Piece piece{static_cast<std::int32_t>(rank), p.rule->buffer, box(p.box, *slots)};
      if (piece.box.dims != static_cast<int>(plan.buffers[piece.buffer].shape.size()))
        bad_input("rule \"{}\" gives buffer \"{}\" a box {} of another number of dimensions",
                  plan.rules[action.rule].name, plan.buffers[piece.buffer].name, to_string(piece.box));
      out->pieces.push_back(piece);
    });
  range.end = static_cast<std::int32_t>(out->pieces.size());
  return range;
}

void Expander::Impl::add_action(std::size_t index, std::int64_t s, Slots* slots, Program* out) const {
  const Rule& rule = plan.rules[index];
  const CompiledRule& compiled = rules[index];
  Action action;
  action.kind = rule.kind;
  action.rule = static_cast<std::int32_t>(index);
  action.s = static_cast<std::int32_t>(s);
  action.producer = rule.producer;
  action.box = box(compiled.box, *slots);
  action.tile = rule.tile;
  const Grid grid = grid_of(action.box, action.tile);
  action.lanes = action.box.dims == 0 ? 1 : action.box.empty() ? 0 : grid.rows * grid.cols;
  if (action.lanes > kMaxItems) bad_input("rule \"{}\" has {} tiles; at most {}", rule.name, action.lanes, kMaxItems);
  action.finish = eval(compiled.finish, *slots) != 0;
  action.limit = rule.limit;
  action.limit_peer = static_cast<std::int32_t>(eval(compiled.limit_peer, *slots));
  const auto span_of = [&](std::int64_t per) {
    if (per < 0 || per > kMaxItems) bad_input("rule \"{}\" shares a counter among {} lanes", rule.name, per);
    return per == 0 ? std::int64_t{1} : ceil_div(action.lanes, per);
  };
  action.waits.begin = static_cast<std::int32_t>(out->waits.size());
  for (const CompiledWait& w : compiled.waits)
    for_each(w, slots, [&] {
      const std::int64_t per = eval(w.per, *slots), at = eval(w.at, *slots);
      if (at < 0 || at > UINT32_MAX) bad_input("rule \"{}\" waits for the value {}; use 0 to 2^32 - 1", rule.name, at);
      const int id = counter_id(w.rule->counter, eval(w.index, *slots), span_of(per), out->rank);
      out->waits.push_back({id, static_cast<std::uint32_t>(at), w.rule->lag, static_cast<std::int32_t>(per)});
    });
  action.waits.end = static_cast<std::int32_t>(out->waits.size());
  action.reads = add_pieces(compiled.reads, slots, out, action);
  action.sources = add_pieces(compiled.sources, slots, out, action);
  action.targets = add_pieces(compiled.targets, slots, out, action);
  action.signals.begin = static_cast<std::int32_t>(out->signals.size());
  for (const CompiledSignal& g : compiled.signals)
    for_each(g, slots, [&] {
      const std::int64_t rank = eval(g.rank, *slots), per = eval(g.per, *slots);
      check_rank(rank, "signalled");
      const int id = counter_id(g.rule->counter, eval(g.index, *slots), span_of(per), static_cast<int>(rank));
      out->signals.push_back({static_cast<std::int32_t>(rank), id, static_cast<std::int32_t>(per)});
    });
  action.signals.end = static_cast<std::int32_t>(out->signals.size());
  out->actions.push_back(action);
}

Expander::Expander(const Plan& plan) : impl_(std::make_unique<Impl>()) {
  impl_->plan = plan;
  impl_->compile_all();
}
Expander::~Expander() = default;
Expander::Expander(Expander&&) noexcept = default;

int Expander::num_ranks() const { return impl_->plan.num_ranks; }

Program Expander::program(int rank) const {
  Program out;
  out.rank = rank;
  Impl::Slots slots = impl_->slots_for(rank);
  const std::size_t outer = slots.size();
  for (std::size_t i = 0; i < impl_->rules.size(); ++i) {
    const std::int64_t count = impl_->eval(impl_->rules[i].count, slots);
    if (count > kMaxItems) bad_input("rule \"{}\" loops {} times; at most {}", impl_->plan.rules[i].name, count, kMaxItems);
    for (std::int64_t s = 0; s < count; ++s) {
      slots[kLoop] = s;
      impl_->add_lets(impl_->rules[i].let, &slots);
      if (impl_->eval(impl_->rules[i].when, slots) != 0) impl_->add_action(i, s, &slots, &out);
      slots.resize(outer);
    }
    slots[kLoop] = 0;
  }
  return out;
}

std::vector<std::int64_t> Expander::shape(int buffer, int rank) const {
  const auto slots = impl_->slots_for(rank);
  std::vector<std::int64_t> out;
  std::int64_t volume = 1;
  for (const Formula& f : impl_->shapes[buffer]) {
    out.push_back(impl_->eval(f, slots));
    if (out.back() < 0 || out.back() > kMaxElements || volume > kMaxElements / std::max<std::int64_t>(out.back(), 1))
      bad_input("buffer \"{}\" has a dimension of {} on rank {}; at most {} elements fit", impl_->plan.buffers[buffer].name,
                out.back(), rank, kMaxElements);
    volume *= std::max<std::int64_t>(out.back(), 1);
  }
  return out;
}

std::int64_t Expander::block_rows(int buffer, int rank) const {
  return impl_->eval(impl_->block_rows[buffer], impl_->slots_for(rank));
}

std::int64_t Expander::num_counters(int rank) const {
  return impl_->counter_bases[(rank + 1) * (impl_->counts.size() + 1) - 1];
}

std::int64_t Expander::counter_base(int family, int rank) const {
  return impl_->counter_bases[rank * (impl_->counts.size() + 1) + family];
}

std::uint32_t Expander::counter_total(int counter, int rank) const {
  const auto first = impl_->counter_bases.begin() + rank * static_cast<std::int64_t>(impl_->counts.size() + 1);
  const auto family = std::upper_bound(first, first + impl_->counts.size() + 1, counter) - first - 1;
  auto slots = impl_->slots_for(rank);
  slots[kIndex] = counter - first[family];
  const std::int64_t total = impl_->eval(impl_->totals[family], slots);
  if (total < 0 || total > INT32_MAX)
    bad_input("counter {} grows by {} a run; use 0 to {}", counter_name(counter, rank), total, INT32_MAX);
  return static_cast<std::uint32_t>(total);
}

std::string Expander::counter_name(int counter, int rank) const {
  const auto first = impl_->counter_bases.begin() + rank * static_cast<std::int64_t>(impl_->counts.size() + 1);
  const auto family = std::upper_bound(first, first + impl_->counts.size() + 1, counter) - first - 1;
  return fmt::format("{}[{}]", impl_->plan.counters[family].name, counter - first[family]);
}

std::vector<Expander::Due> Expander::owed(int rank) const {
  std::vector<Due> out;
  Impl::Slots slots = impl_->slots_for(rank);
  const std::size_t outer = slots.size();
  for (std::size_t i = 0; i < impl_->owed.size(); ++i) {
    const CompiledOwed& o = impl_->owed[i];
    const std::int64_t count = impl_->eval(o.count, slots);
    if (count > kMaxItems) bad_input("plan \"{}\" owes {} pieces; at most {}", impl_->plan.name, count, kMaxItems);
    for (std::int64_t s = 0; s < count; ++s) {
      slots[kLoop] = s;
      impl_->add_lets(o.let, &slots);
      if (impl_->eval(o.when, slots) != 0) {
        const Owed& rule = impl_->plan.owed[i];
        Due due{{rank, rule.piece.buffer, impl_->box(o.piece.box, slots)}, {}, 0, 0, rule.leaf, rule.finished};
        for (std::size_t d = 0; d < o.origin.size() && d < kMaxDims; ++d) due.origin[d] = impl_->eval(o.origin[d], slots);
        due.first = static_cast<std::int32_t>(impl_->eval(o.first, slots) % impl_->plan.num_ranks);
        due.contributors = static_cast<std::int32_t>(impl_->eval(o.contributors, slots));
        impl_->check_rank(due.first, "contributing");
        if (due.contributors < 1 || due.contributors > impl_->plan.num_ranks)
          bad_input("plan \"{}\" owes a sum over {} of {} ranks", impl_->plan.name, due.contributors, impl_->plan.num_ranks);
        if (!due.piece.box.empty()) out.push_back(due);
      }
      slots.resize(outer);
    }
    slots[kLoop] = 0;
  }
  return out;
}

}  // namespace weft
