// Two plans small enough to break by hand, each written as rules. Tests of this folder start from them.
#pragma once

#include <string>
#include <string_view>

#include "weft/plan/rule_words.h"

namespace weft::testing {

inline Expr e(std::string_view text) { return Expr::parse(text); }
inline BoxRule rows(std::string_view lo, std::string_view hi) { return {{e(lo), 0}, {e(hi), e("n")}}; }

inline Plan small_plan(const char* name, int num_ranks, std::int64_t m) {
  Plan plan;
  plan.name = name;
  plan.num_ranks = num_ranks;
  Producer p = copy({.rows = m, .cols = 8, .tile = {2, 4}});
  plan.producers = {validated(p, num_ranks)};
  plan.params = {{"m", m}, {"n", 8}};
  return plan;
}

inline Rule small_rule(const char* name, ActionKind kind, BoxRule box = {}) {
  Rule rule;
  rule.name = name;
  rule.kind = kind;
  rule.producer = kind == ActionKind::step ? 0 : -1;
  rule.box = std::move(box);
  if (!rule.box.lo.empty()) rule.tile = {2, 4};
  return rule;
}

// Two ranks, a reduce-scatter of 8 x 8: each makes the other's four rows into its inbox, then adds its own.
// Counters full (one per tile), used, credit; rules send, own, credit.
inline Plan pair_plan() {
  Plan plan = small_plan("pair", 2, 8);
  plan.buffers = {{"inbox", Dtype::f32, Role::internal, {4, e("n")}, 1, {4, 2, 4}},
                  {"y", Dtype::f32, Role::output, {4, e("n")}, 1, {}}};
  plan.counters = {{"full", 4, 1}, {"used", 1, 4}, {"credit", 1, 1, Purpose::credit}};
  const Expr r = e("r"), other = e("1 - r");
  Rule send = small_rule("send", ActionKind::step, rows("4 * (1 - r)", "4 * (1 - r) + 4"));
  send.waits = {wait(2).lag(1)};
  send.targets = {piece(0, rows("0", "4")).of(other)};
  send.signals = {signal(other, 0).per_lane()};
  Rule own = small_rule("own", ActionKind::step, rows("4 * r", "4 * r + 4"));
  own.waits = {wait(0).per_lane()};
  own.sources = {piece(0, rows("0", "4"))};
  own.targets = {piece(1, rows("0", "4"))};
  own.signals = {signal(r, 1)};
  Rule credit = small_rule("credit", ActionKind::trigger);
  credit.waits = {wait(1).reaches(4)};
  credit.signals = {signal(other, 2)};
  plan.rules = {send, own, credit};
  Owed owed;
  owed.piece = piece(1, rows("0", "4"));
  owed.origin = {e("4 * r"), 0};
  owed.first = other;
  owed.contributors = 2;
  plan.owed = {owed};
  return plan;
}

// Three ranks, an all-reduce of 4 x 8 in one shot: each stores its output into slot r of everybody's inbox,
// and everybody adds slots r + 1, r + 2, r. Counters full (one per tile and slot), used, credit; rules scatter,
// sum, credit.
inline Plan shot_plan() {
  Plan plan = small_plan("shot", 3, 4);
  plan.buffers = {{"inbox", Dtype::f32, Role::internal, {12, e("n")}, 1, {4, 2, 4}},
                  {"y", Dtype::f32, Role::output, {4, e("n")}, 1, {}}};
  plan.counters = {{"full", 12, 1}, {"used", 1, 4}, {"credit", 3, 1, Purpose::credit}};
  const Expr r = e("r"), peer = e("(r + j) % N"), other = e("(r + 1 + j) % N");
  Rule scatter = small_rule("scatter", ActionKind::step, rows("0", "4"));
  scatter.waits = {wait(2).index(other).lag(1).each(2)};
  scatter.targets = {piece(0, rows("4 * r", "4 * r + 4")).of(peer).each(3)};
  scatter.signals = {signal(peer, 0).index(e("4 * r")).per_lane().each(3)};
  Rule sum = small_rule("sum", ActionKind::trigger, rows("0", "4"));
  sum.waits = {wait(0).index(e("4 * j")).per_lane().each(3)};
  sum.sources = {piece(0, rows("(r + 1 + j) % N * 4", "(r + 1 + j) % N * 4 + 4")).each(3)};
  sum.targets = {piece(1, rows("0", "4"))};
  sum.signals = {signal(r, 1)};
  Rule credit = small_rule("credit", ActionKind::trigger);
  credit.waits = {{1, 0, 4}};
  credit.signals = {signal(other, 2).index(r).each(2)};
  plan.rules = {scatter, sum, credit};
  Owed owed;
  owed.piece = piece(1, rows("0", "4"));
  owed.origin = {0, 0};
  owed.first = e("(r + 1) % N");
  owed.contributors = 3;
  plan.owed = {owed};
  return plan;
}

}  // namespace weft::testing
