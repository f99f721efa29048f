#include "tests/value_mutants/kinds.h"

#include <algorithm>
#include <iterator>

#include "weft/base/index.h"

#include "tests/mutants/pick.h"

namespace weft::mutants {
namespace {

constexpr std::vector<PieceRule> Rule::*kPieceLists[] = {&Rule::reads, &Rule::sources, &Rule::targets};

template <typename T>
T& any_of(std::vector<T>& list, Random& random) {
  return list[random() % list.size()];
}

Rule* any_rule(Plan* plan, Random& random, bool (*fits)(const Rule&)) {
  std::vector<Rule*> found;
  for (Rule& rule : plan->rules)
    if (fits(rule)) found.push_back(&rule);
  return found.empty() ? nullptr : found[random() % found.size()];
}

std::int64_t step_of(Random& random) {
  constexpr std::int64_t kSteps[] = {-2, -1, -1, 1, 1, 2};
  return kSteps[random() % std::size(kSteps)];
}

void move_bound(BoxRule* box, Random& random) {
  const std::size_t dim = random() % box->lo.size();
  const Expr by = step_of(random);
  const int which = static_cast<int>(between(random, 0, 2));
  if (which != 1) box->lo[dim] = box->lo[dim] + by;
  if (which != 0) box->hi[dim] = box->hi[dim] + by;
}

bool change_type(Plan* plan, ValueKind kind, Random& random) {
  constexpr Dtype kTypes[] = {Dtype::f32, Dtype::bf16, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::int8};
  if (kind == ValueKind::buffer_dtype) {
    Buffer& buffer = any_of(plan->buffers, random);
    const Dtype before = buffer.dtype;
    buffer.dtype = kTypes[random() % (one_in(random, 2) ? 2 : std::size(kTypes))];
    return buffer.dtype != before;
  }
  if (plan->producers.empty()) return false;
  Producer& p = any_of(plan->producers, random);
  if (kind == ValueKind::weight_dtype) {
    const Dtype before = p.weight;
    p.weight = kTypes[random() % (one_in(random, 2) ? 2 : std::size(kTypes))];
    return p.weight != before;
  }
  constexpr ProducerKind kKinds[] = {ProducerKind::gemm, ProducerKind::gemv, ProducerKind::copy, ProducerKind::window,
                                     ProducerKind::embedding_bag};
  const ProducerKind before = p.kind;
  p.kind = kKinds[random() % std::size(kKinds)];
  return p.kind != before;
}

bool change_layout(Plan* plan, ValueKind kind, Random& random) {
  Buffer& buffer = any_of(plan->buffers, random);
  Packing& packing = buffer.packing;
  switch (kind) {
    case ValueKind::shape: {
      Expr& size = any_of(buffer.shape, random);
      size = size + step_of(random);
      return true;
    }
    case ValueKind::pack:
      if (packing.tile_rows > 0)
        packing = {};
      else
        packing = {one_in(random, 2) ? buffer.shape[0] : Expr(between(random, 1, 4)), between(random, 1, 3),
                   between(random, 1, 6)};
      return true;
    case ValueKind::packing_block:
      if (packing.tile_rows == 0) return false;
      packing.block_rows = one_in(random, 4) ? packing.block_rows * 2 : packing.block_rows + step_of(random);
      return true;
    default: {
      if (packing.tile_rows == 0) return false;
      std::int64_t& side = one_in(random, 2) ? packing.tile_rows : packing.tile_cols;
      side = one_in(random, 3) ? side * 2 : std::max<std::int64_t>(side + step_of(random), 0);
      return true;
    }
  }
}

bool change_limit(Plan* plan, ValueKind kind, Random& random) {
  Rule& rule = any_of(plan->rules, random);
  if (kind == ValueKind::limit_kind) {
    const Limit before = rule.limit;
    rule.limit = static_cast<Limit>(random() % 3);
    if (one_in(random, 3)) rule.limit_peer = Expr::name("r");
    return rule.limit != before;
  }
  if (rule.limit != Limit::peer) return false;
  const Expr r = Expr::name("r"), n = Expr::name("N");
  const Expr others[] = {r, (r + 1) % n, (rule.limit_peer + 1) % n, rule.limit_peer + 1,
                         0, n - 1 - r,   rule.limit_peer % n};
  rule.limit_peer = others[random() % std::size(others)];
  return true;
}

bool change_epilogue(Plan* plan, ValueKind kind, Random& random) {
  if (plan->producers.empty()) return false;
  Producer& p = any_of(plan->producers, random);
  switch (kind) {
    case ValueKind::addend:
      p.addend = !p.addend;
      return true;
    case ValueKind::epilogue:
      if (one_in(random, 4)) any_of(plan->rules, random).finish = 1;  // as if it were its
      switch (between(random, 0, 2)) {
        case 0:
          p.bias = !p.bias;
          return true;
        case 1:
          p.residual = !p.residual;
          return true;
        default:
          p.activation = p.activation == Activation::none ? Activation::relu : Activation::none;
          return true;
      }
    case ValueKind::owed_finished: {
      if (one_in(random, 3)) {  // nothing is finished, and nobody says so
        for (Owed& owed : plan->owed) owed.finished = false;
        for (Rule& rule : plan->rules) rule.finish = 0;
        return true;
      }
      Owed& owed = any_of(plan->owed, random);
      owed.finished = !owed.finished;
      return true;
    }
    default: {
      Rule& rule = any_of(plan->rules, random);
      rule.finish = one_in(random, 3) ? eq(Expr::name("s"), between(random, 0, 2)) : eq(rule.finish, 0);
      return true;
    }
  }
}

// What a step or a trigger computes from.
bool change_operand(Plan* plan, ValueKind kind, Random& random) {
  const auto list = one_in(random, 2) ? &Rule::reads : &Rule::sources;
  const auto [rule, i] = pick(plan, list, random);
  if (rule == nullptr) return false;
  PieceRule& piece = (rule->*list)[i];
  switch (kind) {
    case ValueKind::operand_box:
      move_bound(&piece.box, random);
      return true;
    case ValueKind::operand_buffer:
      piece.buffer = static_cast<int>(random() % plan->buffers.size());
      return true;
    default: {
      const PieceRule again = piece;
      auto& to = one_in(random, 2) ? rule->sources : rule->*list;
      to.insert(to.begin() + static_cast<std::ptrdiff_t>(between(random, 0, std::ssize(to))), again);
      return true;
    }
  }
}

bool change_bounds(Plan* plan, ValueKind kind, Random& random) {
  if (kind == ValueKind::piece_bounds) {
    const auto list = kPieceLists[random() % 3];
    const auto [rule, i] = pick(plan, list, random);
    if (rule == nullptr) return false;
    move_bound(&(rule->*list)[i].box, random);
    return true;
  }
  Rule* rule = any_rule(plan, random, [](const Rule& r) { return !r.box.lo.empty(); });
  if (rule == nullptr) return false;
  if (kind == ValueKind::rule_tile) {
    std::int64_t& side = rule->tile[random() % 2];
    side = one_in(random, 3) ? 0 : one_in(random, 2) ? 2 * side : std::max<std::int64_t>(side + step_of(random), 0);
    return true;
  }
  // The box and all pieces of its shape go along, or the box alone.
  const std::size_t dim = random() % rule->box.lo.size();
  const Expr by = step_of(random);
  rule->box.hi[dim] = rule->box.hi[dim] + by;
  if (one_in(random, 2)) return true;
  for (const auto list : {&Rule::sources, &Rule::targets})
    for (PieceRule& p : rule->*list)
      if (p.box.hi.size() > dim) p.box.hi[dim] = p.box.hi[dim] + by;
  return true;
}

bool change_producer(Plan* plan, ValueKind kind, Random& random) {
  if (plan->producers.empty()) return false;
  Producer& p = any_of(plan->producers, random);
  if (kind == ValueKind::producer_tile) {
    p.tile[random() % 2] += step_of(random);
    return true;
  }
  if (kind == ValueKind::columns_of) {
    p.n_of.assign(num(plan->num_ranks), p.n);
    if (one_in(random, 2)) any_of(p.n_of, random) += step_of(random);
    return true;
  }
  std::int64_t* const sizes[] = {&p.m, &p.n, &p.k, &p.dim, &p.rows};
  std::int64_t& size = *sizes[random() % std::size(sizes)];
  size += one_in(random, 2) ? between(random, 1, 2) : step_of(random);
  return true;
}

std::int64_t huge(Random& random, bool near_2_63) {
  constexpr std::int64_t kSmall[] = {std::int64_t{1} << 31, std::int64_t{1} << 32, std::int64_t{1} << 30};
  constexpr std::int64_t kLarge[] = {INT64_MAX, INT64_MIN, std::int64_t{1} << 62, std::int64_t{1} << 40};
  const std::int64_t base = near_2_63 ? kLarge[random() % std::size(kLarge)] : kSmall[random() % std::size(kSmall)];
  const std::int64_t by = between(random, -2, 2);
  return (by > 0 && base > INT64_MAX - by) || (by < 0 && base < INT64_MIN - by) ? base : base + by;
}

// A number of the plan becomes huge. Half of the time it is one that only a loop or a guard would see.
bool make_huge(Plan* plan, ValueKind kind, Random& random) {
  const std::int64_t value = huge(random, kind == ValueKind::near_2_63);
  Rule& rule = any_of(plan->rules, random);
  std::vector<Expr*> exprs{&rule.count, &rule.when, &rule.finish, &rule.limit_peer, &rule.order, &rule.order_step};
  for (Expr& e : rule.box.hi) exprs.push_back(&e);
  for (WaitRule& w : rule.waits) exprs.insert(exprs.end(), {&w.index, &w.at, &w.per, &w.each, &w.when});
  for (SignalRule& g : rule.signals) exprs.insert(exprs.end(), {&g.rank, &g.index, &g.per, &g.each, &g.when});
  for (const auto list : kPieceLists)
    for (PieceRule& p : rule.*list) exprs.insert(exprs.end(), {&p.rank, &p.each, &p.when, &p.box.hi[0], &p.box.lo[0]});
  for (Buffer& b : plan->buffers) exprs.insert(exprs.end(), {&b.shape[0], &b.packing.block_rows});
  for (Counter& c : plan->counters) exprs.insert(exprs.end(), {&c.count, &c.total});
  if (!plan->params.empty() && one_in(random, 4)) {
    any_of(plan->params, random).value = value;
    return true;
  }
  if (!plan->producers.empty() && one_in(random, 4)) {
    Producer& p = any_of(plan->producers, random);
    std::int64_t* const sizes[] = {&p.m, &p.n, &p.k, &p.dim, &p.rows, &p.tile[0], &p.tile[1]};
    *sizes[random() % std::size(sizes)] = value;
    return true;
  }
  *exprs[random() % exprs.size()] = value;
  return true;
}

bool change_counter(Plan* plan, ValueKind kind, Random& random) {
  if (kind == ValueKind::counter_total) {
    if (plan->counters.empty()) return false;
    Counter& counter = any_of(plan->counters, random);
    // Twice the signals and twice the total; or a total alone.
    const bool both = one_in(random, 2);
    const auto index = static_cast<int>(&counter - plan->counters.data());
    counter.total = both ? counter.total * 2 : counter.total + step_of(random);
    for (Rule& rule : plan->rules) {
      for (SignalRule& g : rule.signals)
        if (both && g.counter == index && g.each.is_number(1)) g.each = 2;
      for (WaitRule& w : rule.waits)
        if (both && w.counter == index) w.at = w.at * 2;
    }
    return true;
  }
  const auto [rule, i] = pick(plan, &Rule::waits, random);
  if (rule == nullptr) return false;
  WaitRule& wait = rule->waits[i];
  if (kind == ValueKind::wait_at)
    wait.at = one_in(random, 4) ? Expr(0) : wait.at + step_of(random);
  else if (kind == ValueKind::wait_lag)
    wait.lag = std::max(0, wait.lag + static_cast<int>(step_of(random)));
  else
    wait.per = one_in(random, 2) ? Expr(between(random, 0, 3)) : wait.per + 1;
  return true;
}

bool change_rest(Plan* plan, ValueKind kind, Random& random) {
  Rule& rule = any_of(plan->rules, random);
  Owed& owed = any_of(plan->owed, random);
  switch (kind) {
    case ValueKind::order:
      rule.order = one_in(random, 4) ? Expr(huge(random, one_in(random, 2))) : Expr::name("s") * between(random, -5, 5);
      rule.order_step = between(random, -3, 3);
      return true;
    case ValueKind::depth: {
      Buffer& buffer = any_of(plan->buffers, random);
      buffer.depth = static_cast<int>(between(random, 0, 4));
      if (one_in(random, 2))
        for (Rule& r : plan->rules)
          for (WaitRule& w : r.waits)
            if (w.lag > 0 && buffer.depth > 0) w.lag = buffer.depth;
      return true;
    }
    case ValueKind::origin: {
      Expr& e = any_of(owed.origin, random);
      e = one_in(random, 3) ? e * 1 + 0 : e + step_of(random);
      if (one_in(random, 3)) owed.count = one_in(random, 2) ? Expr(0) : owed.count;
      return true;
    }
    default:
      switch (between(random, 0, 2)) {
        case 0:
          owed.first = (owed.first + between(random, 0, 1)) % Expr::name("N");
          return true;
        case 1:
          owed.contributors = owed.contributors + between(random, -1, 1);
          return true;
        default:
          owed.ranks_per_host = between(random, 0, 2);
          return true;
      }
  }
}

bool apply(Plan* plan, ValueKind kind, Random& random) {
  switch (kind) {
    case ValueKind::buffer_dtype:
    case ValueKind::weight_dtype:
    case ValueKind::producer_kind:
      return change_type(plan, kind, random);
    case ValueKind::shape:
    case ValueKind::packing_tile:
    case ValueKind::packing_block:
    case ValueKind::pack:
      return change_layout(plan, kind, random);
    case ValueKind::limit_kind:
    case ValueKind::limit_peer:
      return change_limit(plan, kind, random);
    case ValueKind::epilogue:
    case ValueKind::finish:
    case ValueKind::owed_finished:
    case ValueKind::addend:
      return change_epilogue(plan, kind, random);
    case ValueKind::operand_box:
    case ValueKind::operand_buffer:
    case ValueKind::operand_sum:
      return change_operand(plan, kind, random);
    case ValueKind::step_bounds:
    case ValueKind::piece_bounds:
    case ValueKind::rule_tile:
      return change_bounds(plan, kind, random);
    case ValueKind::producer_size:
    case ValueKind::producer_tile:
    case ValueKind::columns_of:
      return change_producer(plan, kind, random);
    case ValueKind::near_2_31:
    case ValueKind::near_2_63:
      return make_huge(plan, kind, random);
    case ValueKind::counter_total:
    case ValueKind::wait_at:
    case ValueKind::wait_lag:
    case ValueKind::lanes_per:
      return change_counter(plan, kind, random);
    default:
      return change_rest(plan, kind, random);
  }
}

}  // namespace

std::string_view to_string(ValueKind kind) {
  constexpr std::string_view kNames[] = {
#define WEFT_NAME(name) #name,
      WEFT_VALUE_KINDS(WEFT_NAME)
#undef WEFT_NAME
  };
  return kNames[static_cast<int>(kind)];
}

std::optional<Plan> with_other_value(const Plan& plan, ValueKind kind, Random& random) {
  Plan out = plan;
  if (!apply(&out, kind, random)) return std::nullopt;
  return out;
}

}  // namespace weft::mutants
