// Gathers and broadcasts: every rank's output on every rank, by stores to everybody or round a ring.
#include "weft/base/error.h"
#include "weft/collective/draft.h"

namespace weft {

using namespace var;  // NOLINT: the vocabulary of rules

Plan build_all_gather(const Producer& p, const Space& space, Route route) {
  check_same_width(p);
  if (p.residual) bad_input("all_gather has no residual: the rows that a rank makes are a part of those it keeps");
  Draft draft(fmt::format("{} all_gather", to_string(p.kind)), route, p, space.num_ranks());
  draft.param("slot", ceil_div(p.m, p.tile[0]) * ceil_div(p.n, p.tile[1]));
  const int y = draft.output(N * m, n);
  Rule rule = draft.step("make", rows(0, m));
  rule.finish = p.has_epilogue();
  if (route == Route::direct) {
    const int open = draft.open_counter(N), got = draft.counter("got", N, slot);
    draft.open({signal(other(j), open).index(r).each(N - 1)});
    rule.waits = {wait(open).index(other(j)).each(N - 1)};
    rule.targets = {piece(y, stacked(r)).of((r + j) % N).each(N)};
    rule.signals = {signal(other(j), got).index(r).each(N - 1)};
    draft.add(rule);
    Rule arrive = draft.trigger("arrive");
    arrive.waits = {wait(got).index(other(j)).reaches(slot).each(N - 1)};
    draft.add(arrive);
  } else if (route == Route::ring) {
    const int open = draft.open_counter(1), got = draft.counter("got", N * slot, 1);
    draft.open({signal(previous, open)});
    rule.waits = {wait(open)};
    rule.targets = {piece(y, stacked(r)), piece(y, stacked(r)).of(next)};
    rule.signals = {signal(next, got).index(r * slot).per_lane()};
    draft.add(rule);
    Rule forward = draft.trigger("gather", rows(0, m));
    forward.count = N - 1;
    forward.let = {{"c", (r - 1 - s) % N}};
    const Expr onward = lt(s, N - 2);
    forward.waits = {wait(got).index(c * slot).per_lane(), wait(open).when(onward)};
    forward.sources = {piece(y, stacked(c)).when(onward)};
    forward.targets = {piece(y, stacked(c)).of(next).when(onward)};
    forward.signals = {signal(next, got).index(c * slot).per_lane().when(onward)};
    draft.add(forward);
  } else {
    bad_input("all_gather has no route {}; use auto, ring or direct", to_string(route));
  }
  draft.plan.owed = {owed_copy(y, N, s, stacked(s), p.has_epilogue())};
  return draft.plan;
}

Plan build_broadcast(const Producer& p, const Space& space) {
  check_same_width(p);
  const int num_ranks = space.num_ranks();
  if (space.options.root < 0 || space.options.root >= num_ranks)
    bad_input("broadcast has root {}, but ranks are 0 to {}", space.options.root, num_ranks - 1);
  Draft draft(fmt::format("{} broadcast", to_string(p.kind)), Route::chain, p, num_ranks);
  draft.param("root", space.options.root);
  const Expr root = Expr::name("root"), onward = lt((r - root) % N, N - 1);
  draft.param("slot", ceil_div(p.m, p.tile[0]) * ceil_div(p.n, p.tile[1]));
  const int y = draft.output(m, n);
  const int open = draft.open_counter(1), got = draft.counter("got", slot, 1);
  draft.open({signal(previous, open)}, ne(r, root));

  Rule rule = draft.step("make", rows(0, m));
  rule.when = eq(r, root);
  rule.waits = {wait(open)};
  rule.targets = {piece(y, rows(0, m)), piece(y, rows(0, m)).of(next)};
  rule.signals = {signal(next, got).per_lane()};
  rule.finish = p.has_epilogue();
  draft.add(rule);

  Rule forward = draft.trigger("chain", rows(0, m));
  forward.when = ne(r, root);
  forward.waits = {wait(got).per_lane(), wait(open).when(onward)};
  forward.sources = {piece(y, rows(0, m)).when(onward)};
  forward.targets = {piece(y, rows(0, m)).of(next).when(onward)};
  forward.signals = {signal(next, got).per_lane().when(onward)};
  draft.add(forward);
  draft.plan.owed = {owed_copy(y, 1, root, rows(0, m), p.has_epilogue())};
  return draft.plan;
}

}  // namespace weft
