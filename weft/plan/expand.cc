// Expansion: rules and expressions in, one rank's flat program out.
#include <algorithm>

#include "weft/base/index.h"
#include "weft/plan/expander_impl.h"

namespace weft {

using namespace expanding;  // NOLINT: the private half of this class

int Expander::Impl::counter_id(int family, std::int64_t index, std::int64_t span, int rank) const {
  const std::size_t at = rank * (counts.size() + 1) + family;
  const std::int64_t count = counter_bases[at + 1] - counter_bases[at];
  if (index < 0 || span < 0 || index > count - span)
    bad_input("plan \"{}\" names counter {}[{}] of rank {}, which has {} of them", plan.name,
              plan.counters[family].name,
              std::clamp<std::int64_t>(index, -1, kMaxItems) + std::max<std::int64_t>(span, 1) - 1, rank, count);
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
  out.dims = int_size(in.lo);
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
  count_loops(each, item.cost, out);
  if (each > kManyTurns) make_room(each, *out);
  for (std::int64_t j = 0; j < each; ++j) {
    (*slots)[kInner] = j;
    if (!item.guards_each || eval(item.when, *slots) != 0) add();
  }
  (*slots)[kInner] = 0;
}

Range Expander::Impl::add_pieces(const std::vector<CompiledPiece>& pieces, Slots* slots, Program* out) const {
  Range range{int_size(out->pieces), 0};
  for (const CompiledPiece& p : pieces) {
    const std::size_t first = out->pieces.size();
    for_each(p, slots, out, [&] {
      const std::int64_t rank = eval(p.rank, *slots);
      check_rank(rank, "target");
      const bool again = p.one_box && out->pieces.size() > first;
      Piece piece{static_cast<std::int32_t>(rank), p.rule->buffer, again ? out->pieces.back().box : box(p.box, *slots)};
      out->pieces.push_back(piece);
    });
  }
  range.end = int_size(out->pieces);
  return range;
}

// So that no product of its sizes leaves 64 bits: pieces have the shape of their action's box, or lie in a buffer.
void Expander::Impl::check_volume(const Rule& rule, const Box& box) const {
  std::int64_t volume = 1;
  for (int d = 0; d < box.dims; ++d) {
    if (box.size(d) > 0 && volume > kMaxElements / box.size(d))
      bad_input("rule \"{}\" has a box {} of more than {} elements", rule.name, to_string(box), kMaxElements);
    volume *= std::max<std::int64_t>(box.size(d), 1);
  }
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
  check_volume(rule, action.box);
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
  action.order = eval(compiled.order, *slots);
  action.order_step = eval(compiled.order_step, *slots);
  const std::int64_t most = kMaxOrder / std::max<std::int64_t>(action.lanes, 1);
  if (std::max(action.order, action.order_step) > most || std::min(action.order, action.order_step) < -most)
    bad_input("rule \"{}\" orders {} lanes by {} and steps of {}; use numbers below 2^40 in all", rule.name,
              action.lanes, action.order, action.order_step);
  const auto span_of = [&](std::int64_t per) {
    if (per < 0 || per > kMaxItems) bad_input("rule \"{}\" shares a counter among {} lanes", rule.name, per);
    return per == 0 ? std::int64_t{1} : ceil_div(action.lanes, per);
  };
  action.waits.begin = int_size(out->waits);
  for (const CompiledWait& w : compiled.waits)
    for_each(w, slots, out, [&] {
      const std::int64_t per = eval(w.per, *slots), at = eval(w.at, *slots);
      if (at < 0 || at > UINT32_MAX) bad_input("rule \"{}\" waits for the value {}; use 0 to 2^32 - 1", rule.name, at);
      const int id = counter_id(w.rule->counter, eval(w.index, *slots), span_of(per), out->rank);
      out->waits.push_back({id, static_cast<std::uint32_t>(at), w.rule->lag, static_cast<std::int32_t>(per)});
    });
  action.waits.end = int_size(out->waits);
  action.reads = add_pieces(compiled.reads, slots, out);
  action.sources = add_pieces(compiled.sources, slots, out);
  action.targets = add_pieces(compiled.targets, slots, out);
  action.signals.begin = int_size(out->signals);
  for (const CompiledSignal& g : compiled.signals)
    for_each(g, slots, out, [&] {
      const std::int64_t rank = eval(g.rank, *slots), per = eval(g.per, *slots);
      check_rank(rank, "signalled");
      const int id = counter_id(g.rule->counter, eval(g.index, *slots), span_of(per), static_cast<int>(rank));
      out->signals.push_back({static_cast<std::int32_t>(rank), id, static_cast<std::int32_t>(per)});
    });
  action.signals.end = int_size(out->signals);
  out->actions.push_back(action);
  make_room(kManyTurns, *out);
}

Expander::Expander(const Plan& plan, Budget* budget) : impl_(std::make_unique<Impl>()) {
  impl_->budget = budget;
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
    impl_->count_loops(count, impl_->rules[i].cost, out);
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
  impl_->spend(1,
               impl_->slots_cost() + kInstruction * static_cast<std::int64_t>(instructions_of(impl_->shapes[buffer])));
  const auto slots = impl_->slots_for(rank);
  std::vector<std::int64_t> out;
  std::int64_t volume = 1;
  for (const Formula& f : impl_->shapes[buffer]) {
    out.push_back(impl_->eval(f, slots));
    if (out.back() < 0 || out.back() > kMaxElements || volume > kMaxElements / std::max<std::int64_t>(out.back(), 1))
      bad_input("buffer \"{}\" has a dimension of {} on rank {}; at most {} elements fit",
                impl_->plan.buffers[buffer].name, out.back(), rank, kMaxElements);
    volume *= std::max<std::int64_t>(out.back(), 1);
  }
  return out;
}

std::int64_t Expander::block_rows(int buffer, int rank) const {
  impl_->spend(1, impl_->slots_cost() + kInstruction * std::ssize(impl_->block_rows[buffer]));
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
  impl_->spend(1, impl_->slots_cost());
  auto slots = impl_->slots_for(rank);
  for (const std::int32_t counter : counters) {
    const auto [family, index] = impl_->family_of(counter, rank);
    impl_->spend(1, static_cast<std::int64_t>(impl_->totals.size() + kInstruction * impl_->totals[family].size()));
    slots[kIndex] = index;
    const std::int64_t total = impl_->eval(impl_->totals[family], slots);
    if (total < 0 || total > INT32_MAX)
      bad_input("counter {} grows by {} per run; use 0 to {}", counter_name(counter, rank), total, INT32_MAX);
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

Purpose Expander::purpose_of(int counter, int rank) const {
  return impl_->plan.counters[impl_->family_of(counter, rank).first].purpose;
}

// What the piece must hold, checked.
void Expander::Impl::finish_due(const CompiledOwed& o, const Slots& slots, const std::vector<std::int64_t>& size,
                                Due* due) const {
  for (std::size_t d = 0; d < o.origin.size(); ++d) {
    due->origin[d] = eval(o.origin[d], slots);
    if (due->origin[d] < 0 || due->origin[d] > kMaxElements)
      bad_input("plan \"{}\" owes what begins at {}; origins are 0 to {}", plan.name, due->origin[d], kMaxElements);
    if (due->piece.box.hi[d] > size[d])
      bad_input("plan \"{}\" owes {} of \"{}\", more than there is on rank {}", plan.name, to_string(due->piece.box),
                plan.buffers[due->piece.buffer].name, due->piece.rank);
  }
  const std::int64_t first = eval(o.first, slots), contributors = eval(o.contributors, slots);
  due->first = static_cast<std::int32_t>(first % plan.num_ranks);
  check_rank(due->first, "contributing");
  if (contributors < 1 || contributors > plan.num_ranks)
    bad_input("plan \"{}\" owes a sum over {} of {} ranks", plan.name, contributors, plan.num_ranks);
  due->contributors = static_cast<std::int32_t>(contributors);
  const std::int64_t per_host = eval(o.ranks_per_host, slots);
  if (per_host != 1 && (per_host < 1 || plan.num_ranks % per_host != 0 || contributors != plan.num_ranks))
    bad_input("plan \"{}\" owes a sum over {} of {} ranks by hosts of {}; all ranks must be in it, and hosts full",
              plan.name, contributors, plan.num_ranks, per_host);
  due->ranks_per_host = static_cast<std::int32_t>(per_host);
}

std::vector<Expander::Due> Expander::owed(int rank) const {
  std::vector<Due> out;
  Impl::Slots slots = impl_->slots_for(rank);
  const std::size_t outer = slots.size();
  for (std::size_t i = 0; i < impl_->owed.size(); ++i) {
    const CompiledOwed& o = impl_->owed[i];
    const std::int64_t count = impl_->eval(o.count, slots);
    const std::vector<std::int64_t> size = shape(impl_->plan.owed[i].piece.buffer, rank);
    impl_->spend(count, o.cost);
    if (count > kMaxLoops)
      bad_input("plan \"{}\" owes more than {} pieces to rank {}", impl_->plan.name, kMaxLoops, rank);
    for (std::int64_t s = 0; s < count; ++s) {
      slots[kLoop] = s;
      impl_->add_lets(o.let, &slots);
      if (impl_->eval(o.when, slots) != 0) {
        const Owed& rule = impl_->plan.owed[i];
        Due due{{rank, rule.piece.buffer, impl_->box(o.piece.box, slots)}, {}, 0, 0, 1, rule.leaf, rule.finished, 0};
        due.epilogue = rule.epilogue >= 0 ? rule.epilogue : std::max(rule.leaf, 0);
        impl_->finish_due(o, slots, size, &due);
        if (!due.piece.box.empty()) out.push_back(due);
        if (impl_->budget != nullptr) impl_->budget->scratch(3 * std::ssize(out) * std::int64_t{sizeof(Due)});
      }
      slots.resize(outer);
    }
    slots[kLoop] = 0;
  }
  return out;
}

}  // namespace weft
