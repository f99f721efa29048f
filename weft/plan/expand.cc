// Expansion: rules and expressions in, one rank's flat program out.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/plan/program.h"

namespace weft {
namespace {

enum Slot { kRank, kRanks, kLoop, kInner, kIndex, kFirstParam };

constexpr std::int64_t kMaxItems = std::int64_t{1}
                                   << 25;  // of one rank's program: a hostile file cannot fill the memory
constexpr std::int64_t kMaxLoops = std::int64_t{1} << 23;     // turns of one rank's loops: about a second
constexpr std::int64_t kMaxDues = std::int64_t{1} << 20;      // pieces owed to a rank
constexpr std::int64_t kMaxFamilies = std::int64_t{1} << 22;  // buffers and counters of all ranks
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;  // of one buffer

std::size_t weight_of(const std::vector<Formula>& list) {
  std::size_t sum = 0;
  for (const Formula& f : list) sum += f.size();
  return sum;
}

struct CompiledBox {
  std::vector<Formula> lo, hi;

  std::size_t weight() const { return weight_of(lo) + weight_of(hi); }
};
struct CompiledWait {
  const WaitRule* rule;
  Formula index, at, per, each, when;
  bool guards_each;  // `when` depends on j

  std::size_t weight() const { return index.size() + at.size() + per.size() + when.size(); }
};
struct CompiledPiece {
  const PieceRule* rule;
  CompiledBox box;
  Formula rank, each, when;
  bool guards_each, one_box;  // one_box: for all j

  std::size_t weight() const { return rank.size() + when.size() + box.weight(); }
};
struct CompiledSignal {
  const SignalRule* rule;
  Formula rank, index, per, each, when;
  bool guards_each;

  std::size_t weight() const { return rank.size() + index.size() + per.size() + when.size(); }
};
struct CompiledRule {
  std::vector<Formula> let;
  Formula count, when, finish, limit_peer;
  CompiledBox box;
  std::vector<CompiledWait> waits;
  std::vector<CompiledPiece> reads, sources, targets;
  std::vector<CompiledSignal> signals;

  std::size_t weight() const {
    const std::size_t items = waits.size() + reads.size() + sources.size() + targets.size() + signals.size();
    return weight_of(let) + when.size() + box.weight() + 8 * items;
  }
};
struct CompiledOwed {
  std::vector<Formula> let, origin;
  Formula count, when, first, contributors;
  CompiledPiece piece;

  std::size_t weight() const { return weight_of(let) + weight_of(origin) + when.size() + piece.weight(); }
};

CompiledBox compile(const BoxRule& box, const Scope& scope) {
  if (box.lo.size() != box.hi.size() || box.lo.size() > static_cast<std::size_t>(kMaxDims))
    bad_input("a box has {} lower and {} upper bounds; give as many of each, at most {}", box.lo.size(),
              box.hi.size(), kMaxDims);
  CompiledBox out;
  for (const Expr& e : box.lo) out.lo.emplace_back(e, scope);
  for (const Expr& e : box.hi) out.hi.emplace_back(e, scope);
  return out;
}

CompiledPiece compile(const PieceRule& p, const Scope& scope) {
  const auto by_j = [](const Expr& e) { return e.mentions("j"); };
  const bool one_box = std::none_of(p.box.lo.begin(), p.box.lo.end(), by_j) &&
                       std::none_of(p.box.hi.begin(), p.box.hi.end(), by_j);
  return {&p,     compile(p.box, scope), {p.rank, scope}, {p.each, scope}, {p.when, scope}, by_j(p.when),
          one_box};
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
  std::vector<bool> totals_differ;          // by the index within the family
  std::vector<std::int64_t> counter_bases;  // [rank * (families + 1) + family]

  using Slots = std::vector<std::int64_t>;

  std::int64_t eval(const Formula& f, const Slots& slots) const { return f.eval(slots, tables); }

  Slots slots_for(int rank) const {
    Slots slots{rank, plan.num_ranks, 0, 0, 0};
    slots.insert(slots.end(), params.begin(), params.end());
    return slots;
  }

  void compile_all();
  void check_owed(const Owed& owed) const;
  void compile_rule(const Rule& rule);
  void place_counters();
  void check_rank(std::int64_t rank, const char* what) const {
    if (rank < 0 || rank >= plan.num_ranks)
      bad_input("plan \"{}\" names {} rank {}, but there are {}", plan.name, what, rank, plan.num_ranks);
  }
  int counter_id(int family, std::int64_t index, std::int64_t span, int rank) const;
  std::pair<std::size_t, std::int64_t> family_of(int counter, int rank) const;  // and its index in it
  Box box(const CompiledBox& box, const Slots& slots) const;
  void add_lets(const std::vector<Formula>& lets, Slots* slots) const {
    for (const Formula& f : lets) slots->push_back(eval(f, *slots));
  }
  // `weight`: instructions a turn.
  void count_loops(std::int64_t turns, std::size_t weight, Program* out) const {
    const auto each = 1 + static_cast<std::int64_t>(weight) / 64;
    out->loops += (std::clamp<std::int64_t>(turns, 0, kMaxItems) + 1) * each;
    if (out->loops > kMaxLoops)
      bad_input("plan \"{}\" loops more than {} times on rank {}; a rank's part must be smaller", plan.name,
                kMaxLoops, out->rank);
  }
  template <typename Item, typename Add>
  void for_each(const Item& item, Slots* slots, Program* out, Add&& add) const;
  Range add_pieces(const std::vector<CompiledPiece>& pieces, Slots* slots, Program* out,
                   const Action& action) const;
  void add_action(std::size_t rule, std::int64_t s, Slots* slots, Program* out) const;
  void finish_due(const CompiledOwed& owed, const Slots& slots, const std::vector<std::int64_t>& size,
                  Due* due) const;
};

void Expander::Impl::compile_all() {
  if (plan.num_ranks < 1 || plan.num_ranks > 65536)
    bad_input("plan \"{}\" is for {} ranks; use 1 to 65536", plan.name, plan.num_ranks);
  const std::int64_t families = static_cast<std::int64_t>(plan.counters.size() + plan.buffers.size());
  if (families > kMaxFamilies / plan.num_ranks)
    bad_input("plan \"{}\" has {} buffers and counters on each of {} ranks; at most {} in all", plan.name,
              families, plan.num_ranks, kMaxFamilies);
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
    totals_differ.push_back(c.total.mentions("i"));
  }
  for (const Rule& rule : plan.rules) compile_rule(rule);
  for (const Owed& o : plan.owed) {
    check_owed(o);
    CompiledOwed out;
    const Scope inner = with_lets(scope, o.let, &out.let);
    for (const Expr& e : o.origin) out.origin.emplace_back(e, inner);
    out.count = {o.count, scope};
    out.when = {o.when, inner};
    out.first = {o.first, inner};
    out.contributors = {o.contributors, inner};
    out.piece = compile(o.piece, inner);
    owed.push_back(std::move(out));
  }
  place_counters();
}

void Expander::Impl::check_owed(const Owed& o) const {
  const int buffers = static_cast<int>(plan.buffers.size()),
            producers = static_cast<int>(plan.producers.size());
  if (o.piece.buffer < 0 || o.piece.buffer >= buffers)
    bad_input("plan \"{}\" owes a piece of buffer {} of {}", plan.name, o.piece.buffer, buffers);
  if (o.leaf >= producers || -1 - o.leaf >= buffers)
    bad_input("plan \"{}\" owes tiles of {} {}, which it has not", plan.name,
              o.leaf >= 0 ? "producer" : "buffer", o.leaf >= 0 ? o.leaf : -1 - o.leaf);
  const Buffer& buffer = plan.buffers[o.piece.buffer];
  if (o.piece.box.lo.size() != buffer.shape.size() || o.origin.size() != buffer.shape.size())
    bad_input("plan \"{}\" owes {} dimensions of \"{}\" from an origin of {}, but the buffer has {}",
              plan.name, o.piece.box.lo.size(), buffer.name, o.origin.size(), buffer.shape.size());
}

void Expander::Impl::compile_rule(const Rule& rule) {
  const int buffers = static_cast<int>(plan.buffers.size());
  const int families = static_cast<int>(plan.counters.size());
  for (const auto* list : {&rule.reads, &rule.sources, &rule.targets})
    for (const PieceRule& p : *list)
      if (p.buffer < 0 || p.buffer >= buffers)
        bad_input("rule \"{}\" names buffer {} of {}", rule.name, p.buffer, buffers);
  for (const WaitRule& w : rule.waits)
    if (w.counter < 0 || w.counter >= families || w.lag < 0 || w.lag > 64)
      bad_input("rule \"{}\" waits for counter {} with lag {}; there are {} counters, lags are 0 to 64",
                rule.name, w.counter, w.lag, families);
  for (const SignalRule& g : rule.signals)
    if (g.counter < 0 || g.counter >= families)
      bad_input("rule \"{}\" signals counter {} of {}", rule.name, g.counter, families);
  if (rule.kind == ActionKind::step &&
      (rule.producer < 0 || rule.producer >= static_cast<int>(plan.producers.size()) ||
       rule.box.lo.size() != 2))
    bad_input("step \"{}\" needs a producer of the plan and a box of rows and columns", rule.name);
  CompiledRule out;
  const Scope inner = with_lets(scope, rule.let, &out.let);
  out.count = {rule.count, scope};
  out.when = {rule.when, inner};
  out.finish = {rule.finish, inner};
  out.limit_peer = {rule.limit_peer, inner};
  out.box = compile(rule.box, inner);
  for (const WaitRule& w : rule.waits)
    out.waits.push_back({&w,
                         {w.index, inner},
                         {w.at, inner},
                         {w.per, inner},
                         {w.each, inner},
                         {w.when, inner},
                         w.when.mentions("j")});
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
        bad_input("counter \"{}\" has {} instances on rank {}; use 0 to {}", plan.counters[f].name, count,
                  rank, kMaxItems);
      base += count;
    }
    counter_bases.push_back(base);
  }
}

int Expander::Impl::counter_id(int family, std::int64_t index, std::int64_t span, int rank) const {
  const std::size_t at = rank * (counts.size() + 1) + family;
  const std::int64_t count = counter_bases[at + 1] - counter_bases[at];
  if (index < 0 || span < 0 || index > count - span)
    bad_input("plan \"{}\" names counter {}[{}] of rank {}, which has {} of them", plan.name,
              plan.counters[family].name, index + std::max<std::int64_t>(span, 1) - 1, rank, count);
  return static_cast<int>(counter_bases[at] + index);
}

std::pair<std::size_t, std::int64_t> Expander::Impl::family_of(int counter, int rank) const {
  const std::int64_t* base = counter_bases.data() + rank * (counts.size() + 1);
  std::size_t family = counts.size() - 1;
  while (family > 0 && base[family] > counter) --family;
  return {family, counter - base[family]};
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
void Expander::Impl::for_each(const Item& item, Slots* slots, Program* out, Add&& add) const {
  const std::int64_t each = eval(item.each, *slots);
  // A guard that does not depend on j is settled once: a list of N under N actions must not cost N x N.
  if (!item.guards_each && eval(item.when, *slots) == 0) return;
  count_loops(each, item.weight(), out);
  for (std::int64_t j = 0; j < each; ++j) {
    (*slots)[kInner] = j;
    if (!item.guards_each || eval(item.when, *slots) != 0) add();
  }
  (*slots)[kInner] = 0;
}

Range Expander::Impl::add_pieces(const std::vector<CompiledPiece>& pieces, Slots* slots, Program* out,
                                 const Action& action) const {
  Range range{static_cast<std::int32_t>(out->pieces.size()), 0};
  for (const CompiledPiece& p : pieces) {
    const std::size_t first = out->pieces.size();
    for_each(p, slots, out, [&] {
      const std::int64_t rank = eval(p.rank, *slots);
      check_rank(rank, "target");
      const bool again = p.one_box && out->pieces.size() > first;
      Piece piece{static_cast<std::int32_t>(rank), p.rule->buffer,
                  again ? out->pieces.back().box : box(p.box, *slots)};
      if (piece.box.dims != static_cast<int>(plan.buffers[piece.buffer].shape.size()))
        bad_input("rule \"{}\" gives buffer \"{}\" a box {} of another number of dimensions",
                  plan.rules[action.rule].name, plan.buffers[piece.buffer].name, to_string(piece.box));
      out->pieces.push_back(piece);
    });
  }
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
  if (!action.box.empty() && grid.rows > kMaxItems / grid.cols)
    bad_input("rule \"{}\" has {} x {} tiles; at most {}", rule.name, grid.rows, grid.cols, kMaxItems);
  action.lanes = action.box.dims == 0 ? 1 : action.box.empty() ? 0 : grid.rows * grid.cols;
  action.finish = eval(compiled.finish, *slots) != 0;
  action.limit = rule.limit;
  if (rule.limit == Limit::peer) {
    const std::int64_t peer = eval(compiled.limit_peer, *slots);
    check_rank(peer, "limiting");
    action.limit_peer = static_cast<std::int32_t>(peer);
  }
  const auto span_of = [&](std::int64_t per) {
    if (per < 0 || per > kMaxItems) bad_input("rule \"{}\" shares a counter among {} lanes", rule.name, per);
    return per == 0 ? std::int64_t{1} : ceil_div(action.lanes, per);
  };
  action.waits.begin = static_cast<std::int32_t>(out->waits.size());
  for (const CompiledWait& w : compiled.waits)
    for_each(w, slots, out, [&] {
      const std::int64_t per = eval(w.per, *slots), at = eval(w.at, *slots);
      if (at < 0 || at > UINT32_MAX)
        bad_input("rule \"{}\" waits for the value {}; use 0 to 2^32 - 1", rule.name, at);
      const int id = counter_id(w.rule->counter, eval(w.index, *slots), span_of(per), out->rank);
      out->waits.push_back({id, static_cast<std::uint32_t>(at), w.rule->lag, static_cast<std::int32_t>(per)});
    });
  action.waits.end = static_cast<std::int32_t>(out->waits.size());
  action.reads = add_pieces(compiled.reads, slots, out, action);
  action.sources = add_pieces(compiled.sources, slots, out, action);
  action.targets = add_pieces(compiled.targets, slots, out, action);
  action.signals.begin = static_cast<std::int32_t>(out->signals.size());
  for (const CompiledSignal& g : compiled.signals)
    for_each(g, slots, out, [&] {
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
  program(rank, &out);
  return out;
}

void Expander::program(int rank, Program* out) const {
  out->rank = rank;
  out->loops = 0;
  out->actions.clear();
  out->waits.clear();
  out->pieces.clear();
  out->signals.clear();
  Impl::Slots slots = impl_->slots_for(rank);
  const std::size_t outer = slots.size();
  for (std::size_t i = 0; i < impl_->rules.size(); ++i) {
    const std::int64_t count = impl_->eval(impl_->rules[i].count, slots);
    impl_->count_loops(count, impl_->rules[i].weight(), out);
    for (std::int64_t s = 0; s < count; ++s) {
      slots[kLoop] = s;
      impl_->add_lets(impl_->rules[i].let, &slots);
      if (impl_->eval(impl_->rules[i].when, slots) != 0) impl_->add_action(i, s, &slots, out);
      slots.resize(outer);
    }
    slots[kLoop] = 0;
  }
}

std::vector<std::int64_t> Expander::shape(int buffer, int rank) const {
  const auto slots = impl_->slots_for(rank);
  std::vector<std::int64_t> out;
  std::int64_t volume = 1;
  for (const Formula& f : impl_->shapes[buffer]) {
    out.push_back(impl_->eval(f, slots));
    if (out.back() < 0 || out.back() > kMaxElements ||
        volume > kMaxElements / std::max<std::int64_t>(out.back(), 1))
      bad_input("buffer \"{}\" has a dimension of {} on rank {}; at most {} elements fit",
                impl_->plan.buffers[buffer].name, out.back(), rank, kMaxElements);
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
  const std::int32_t one = counter;
  return counter_totals(rank, {&one, 1}).front();
}

std::vector<std::uint32_t> Expander::counter_totals(int rank, std::span<const std::int32_t> counters) const {
  std::vector<std::uint32_t> out;
  out.reserve(counters.size());
  auto slots = impl_->slots_for(rank);
  for (const std::int32_t counter : counters) {
    const auto [family, index] = impl_->family_of(counter, rank);
    slots[kIndex] = index;
    const std::int64_t total = impl_->eval(impl_->totals[family], slots);
    if (total < 0 || total > INT32_MAX)
      bad_input("counter {} grows by {} a run; use 0 to {}", counter_name(counter, rank), total, INT32_MAX);
    out.push_back(static_cast<std::uint32_t>(total));
  }
  return out;
}

bool Expander::same_totals(int counter, int rank) const {
  return !impl_->totals_differ[impl_->family_of(counter, rank).first];
}

std::string Expander::counter_name(int counter, int rank) const {
  const auto [family, index] = impl_->family_of(counter, rank);
  return fmt::format("{}[{}]", impl_->plan.counters[family].name, index);
}

// What the piece must hold, checked.
void Expander::Impl::finish_due(const CompiledOwed& o, const Slots& slots,
                                const std::vector<std::int64_t>& size, Due* due) const {
  for (std::size_t d = 0; d < o.origin.size(); ++d) {
    due->origin[d] = eval(o.origin[d], slots);
    if (due->origin[d] < 0 || due->origin[d] > kMaxElements)
      bad_input("plan \"{}\" owes what begins at {}; origins are 0 to {}", plan.name, due->origin[d],
                kMaxElements);
    if (due->piece.box.hi[d] > size[d])
      bad_input("plan \"{}\" owes {} of \"{}\", more than there is on rank {}", plan.name,
                to_string(due->piece.box), plan.buffers[due->piece.buffer].name, due->piece.rank);
  }
  const std::int64_t first = eval(o.first, slots), contributors = eval(o.contributors, slots);
  due->first = static_cast<std::int32_t>(first % plan.num_ranks);
  check_rank(due->first, "contributing");
  if (contributors < 1 || contributors > plan.num_ranks)
    bad_input("plan \"{}\" owes a sum over {} of {} ranks", plan.name, contributors, plan.num_ranks);
  due->contributors = static_cast<std::int32_t>(contributors);
}

std::vector<Expander::Due> Expander::owed(int rank) const {
  std::vector<Due> out;
  std::int64_t left = kMaxDues;
  Impl::Slots slots = impl_->slots_for(rank);
  const std::size_t outer = slots.size();
  for (std::size_t i = 0; i < impl_->owed.size(); ++i) {
    const CompiledOwed& o = impl_->owed[i];
    const std::int64_t count = impl_->eval(o.count, slots);
    const std::vector<std::int64_t> size = shape(impl_->plan.owed[i].piece.buffer, rank);
    const std::int64_t turn = 1 + static_cast<std::int64_t>(o.weight()) / 64;
    left -= std::clamp<std::int64_t>(count, 0, kMaxDues + 1) * turn;
    if (left < 0)
      bad_input("plan \"{}\" owes more than {} pieces to rank {}", impl_->plan.name, kMaxDues, rank);
    for (std::int64_t s = 0; s < count; ++s) {
      slots[kLoop] = s;
      impl_->add_lets(o.let, &slots);
      if (impl_->eval(o.when, slots) != 0) {
        const Owed& rule = impl_->plan.owed[i];
        Due due{
            {rank, rule.piece.buffer, impl_->box(o.piece.box, slots)}, {}, 0, 0, rule.leaf, rule.finished};
        impl_->finish_due(o, slots, size, &due);
        if (!due.piece.box.empty()) out.push_back(due);
      }
      slots.resize(outer);
    }
    slots[kLoop] = 0;
  }
  return out;
}

}  // namespace weft
