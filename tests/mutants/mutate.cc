#include "tests/mutants/mutate.h"

#include <algorithm>
#include <utility>

#include "weft/base/index.h"

#include "tests/mutants/pick.h"

namespace weft::mutants {
namespace {

void shift(BoxRule* box, std::size_t dim, const Expr& by) {
  box->lo[dim] = box->lo[dim] + by;
  box->hi[dim] = box->hi[dim] + by;
}

bool alias(Plan* plan, std::vector<PieceRule> Rule::*list, Random& random) {
  const auto [rule, i] = pick(plan, list, random);
  if (rule == nullptr) return false;
  PieceRule& piece = (rule->*list)[i];
  // The place of another piece of that buffer, or the next slot.
  const auto other_list = one_in(random, 2) ? &Rule::sources : &Rule::targets;
  const auto [from, k] = pick(plan, other_list, random, [&](const PieceRule& p) { return p.buffer == piece.buffer; });
  const bool has_cap =
      std::any_of(plan->params.begin(), plan->params.end(), [](const Param& p) { return p.name == "cap"; });
  if (from != nullptr && (!has_cap || one_in(random, 2)))
    piece.box = (from->*other_list)[k].box;
  else if (has_cap)
    shift(&piece.box, 0, one_in(random, 2) ? Expr::name("cap") : Expr(0) - Expr::name("cap"));
  else
    return false;
  return true;
}

bool shift_some(Plan* plan, Random& random, bool piece) {
  const Expr by = one_in(random, 2) ? 1 : -1;
  const std::size_t dim = random() % 2;
  if (!piece) {
    std::vector<Rule*> with_box;
    for (Rule& rule : plan->rules)
      if (rule.box.lo.size() > dim) with_box.push_back(&rule);
    if (!with_box.empty()) shift(&with_box[random() % with_box.size()]->box, dim, by);
    return !with_box.empty();
  }
  constexpr std::vector<PieceRule> Rule::*kLists[] = {&Rule::reads, &Rule::sources, &Rule::targets};
  const auto list = kLists[random() % 3];
  const auto [rule, i] = pick(plan, list, random);
  if (rule != nullptr) shift(&(rule->*list)[i].box, dim, by);
  return rule != nullptr;
}

bool retarget(Plan* plan, Random& random) {
  const auto [rule, i] = pick(plan, &Rule::signals, random);
  if (rule == nullptr) return false;
  SignalRule& signal = rule->signals[i];
  switch (between(random, 0, 2)) {
    case 0:
      signal.rank = (signal.rank + 1) % Expr::name("N");
      break;
    case 1:
      signal.index = signal.index + (one_in(random, 2) ? 1 : -1);
      break;
    default:
      signal.counter = static_cast<int>(random() % plan->counters.size());
  }
  return true;
}

bool rewait(Plan* plan, Random& random) {
  const auto [rule, i] = pick(plan, &Rule::waits, random);
  if (rule == nullptr) return false;
  WaitRule& wait = rule->waits[i];
  if (one_in(random, 2))
    wait.index = wait.index + (one_in(random, 2) ? 1 : -1);
  else
    wait.counter = static_cast<int>(random() % plan->counters.size());
  return true;
}

// The first half stores all but the last target and signals; the second half stores that one.
bool early_signal(Plan* plan, Random& random) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < plan->rules.size(); ++i)
    if (!plan->rules[i].targets.empty() && !plan->rules[i].signals.empty()) found.push_back(i);
  if (found.empty()) return false;
  const std::size_t at = found[random() % found.size()];
  Rule second = plan->rules[at];
  plan->rules[at].targets.pop_back();
  second.targets = {second.targets.back()};
  second.signals.clear();
  plan->rules.insert(plan->rules.begin() + static_cast<std::ptrdiff_t>(at) + 1, second);
  return true;
}

// Some action waits for a counter that a later one raises.
bool close_cycle(Plan* plan, Random& random) {
  const auto [later, i] = pick(plan, &Rule::signals, random);
  if (later == nullptr || later == plan->rules.data()) return false;
  const auto [waiting, k] =
      pick(plan, &Rule::waits, random,
           [&, raised = later->signals[i].counter](const WaitRule& w) { return w.counter == raised; });
  Rule& early = plan->rules[random() % num(later - plan->rules.data())];
  if (waiting != nullptr)
    early.waits.push_back(waiting->waits[k]);
  else
    early.waits.push_back({later->signals[i].counter, later->signals[i].index, 1, 0, later->signals[i].per});
  if (one_in(random, 4)) early.waits.back().lag = 1;
  return true;
}

bool change_lanes(Plan* plan, Random& random, bool to_whole) {
  const Expr wanted = to_whole ? 0 : 1;
  if (one_in(random, 2)) {
    const auto [rule, i] =
        pick(plan, &Rule::waits, random, [&](const WaitRule& w) { return w.per.is_number(0) != to_whole; });
    if (rule != nullptr) rule->waits[i].per = wanted;
    return rule != nullptr;
  }
  const auto [rule, i] =
      pick(plan, &Rule::signals, random, [&](const SignalRule& g) { return g.per.is_number(0) != to_whole; });
  if (rule != nullptr) rule->signals[i].per = wanted;
  return rule != nullptr;
}

bool change_lag(Plan* plan, Random& random, int by) {
  const auto [rule, i] = pick(plan, &Rule::waits, random, [&](const WaitRule& w) { return w.lag + by >= 0; });
  if (rule != nullptr) rule->waits[i].lag += by;
  return rule != nullptr;
}

bool change_at(Plan* plan, Random& random) {
  const auto [rule, i] = pick(plan, &Rule::waits, random);
  if (rule != nullptr) rule->waits[i].at = rule->waits[i].at + (one_in(random, 2) ? 1 : -1);
  return rule != nullptr;
}

bool swap_source_order(Plan* plan, Random& random) {
  const auto [rule, i] = pick(plan, &Rule::sources, random);
  if (rule == nullptr) return false;
  if (rule->sources.size() < 2) {  // a list made by one rule: turned round
    PieceRule& piece = rule->sources[i];
    if (piece.each.is_number(1)) return false;
    rule->sources.push_back(piece);
    rule->sources[0].when = both(rule->sources[0].when, gt(Expr::name("j"), 0));
    rule->sources[1].when = both(rule->sources[1].when, eq(Expr::name("j"), 0));
    return true;
  }
  std::swap(rule->sources[i], rule->sources[random() % rule->sources.size()]);
  return true;
}

bool change_rules(Plan* plan, Mutation mutation, Random& random) {
  auto& rules = plan->rules;
  const auto at = static_cast<std::ptrdiff_t>(random() % rules.size());
  switch (mutation) {
    case Mutation::drop_action:
      rules.erase(rules.begin() + at);
      return true;
    case Mutation::double_action: {
      const Rule rule = rules[at];
      rules.insert(rules.begin() + between(random, 0, rules.size()), rule);
      return true;
    }
    case Mutation::toggle_finish:
      rules[at].finish = eq(rules[at].finish, 0);
      return true;
    default:
      std::swap(rules[at], rules[random() % rules.size()]);
      return true;
  }
}

bool change_memory(Plan* plan, Mutation mutation, Random& random) {
  if (mutation == Mutation::change_depth) {
    Buffer& buffer = plan->buffers[random() % plan->buffers.size()];
    buffer.depth += buffer.depth > 1 && one_in(random, 2) ? -1 : 1;
    return true;
  }
  Counter& counter = plan->counters[random() % plan->counters.size()];
  counter.total = counter.total + (one_in(random, 2) ? 1 : -1);
  return true;
}

bool apply(Plan* plan, Mutation mutation, Random& random) {
  const auto lagging = [](bool wanted) { return [wanted](const WaitRule& w) { return (w.lag > 0) == wanted; }; };
  switch (mutation) {
    case Mutation::drop_signal:
      return drop(plan, &Rule::signals, random);
    case Mutation::double_signal:
      return duplicate(plan, &Rule::signals, random);
    case Mutation::retarget_signal:
      return retarget(plan, random);
    case Mutation::drop_data_wait:
      return drop(plan, &Rule::waits, random, lagging(false));
    case Mutation::drop_credit_wait:
      return drop(plan, &Rule::waits, random, lagging(true));
    case Mutation::lower_lag:
      return change_lag(plan, random, -1);
    case Mutation::raise_lag:
      return change_lag(plan, random, 1);
    case Mutation::change_at:
      return change_at(plan, random);
    case Mutation::swap_waits:
      return exchange(plan, &Rule::waits, random);
    case Mutation::rewait:
      return rewait(plan, random);
    case Mutation::swap_source_order:
      return swap_source_order(plan, random);
    case Mutation::exchange_sources:
      return exchange(plan, &Rule::sources, random);
    case Mutation::drop_source:
      return drop(plan, &Rule::sources, random);
    case Mutation::double_source:
      return duplicate(plan, &Rule::sources, random);
    case Mutation::alias_source:
      return alias(plan, &Rule::sources, random);
    case Mutation::alias_target:
      return alias(plan, &Rule::targets, random);
    case Mutation::shift_piece:
      return shift_some(plan, random, true);
    case Mutation::shift_box:
      return shift_some(plan, random, false);
    case Mutation::drop_target:
      return drop(plan, &Rule::targets, random);
    case Mutation::double_target:
      return duplicate(plan, &Rule::targets, random);
    case Mutation::exchange_targets:
      return exchange(plan, &Rule::targets, random);
    case Mutation::early_signal:
      return early_signal(plan, random);
    case Mutation::close_cycle:
      return close_cycle(plan, random);
    case Mutation::drop_action:
    case Mutation::double_action:
    case Mutation::toggle_finish:
    case Mutation::swap_actions:
      return change_rules(plan, mutation, random);
    case Mutation::change_depth:
    case Mutation::change_total:
      return change_memory(plan, mutation, random);
    case Mutation::whole_lanes:
      return change_lanes(plan, random, true);
    case Mutation::split_lanes:
      return change_lanes(plan, random, false);
  }
  return false;
}

}  // namespace

std::string_view to_string(Mutation mutation) {
  constexpr std::string_view kNames[] = {
#define WEFT_NAME(name) #name,
      WEFT_MUTATIONS(WEFT_NAME)
#undef WEFT_NAME
  };
  return kNames[static_cast<int>(mutation)];
}

std::optional<Plan> mutated(const Plan& plan, Mutation mutation, Random& random) {
  Plan out = plan;
  if (!apply(&out, mutation, random)) return std::nullopt;
  return out;
}

}  // namespace weft::mutants
