// Gathers and broadcasts: every rank's output on every rank, by stores to everybody or round a ring, and the same on
// the consumer's side, where the tiles of a gemm wait for the rows they read.
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

// m rows of x on every rank become N * m rows of a; chunk c of y needs the rows of rank c.
Plan build_gather_gemm(const Producer& p, const Space& space, Route route) {
  if (p.kind != ProducerKind::gemm) bad_input("rows are gathered for a gemm, not for {}; use gemm", to_string(p.kind));
  if (route != Route::ring && route != Route::direct && route != Route::staged)
    bad_input("all_gather into gemm has no route {}; use auto, ring, direct or staged", to_string(route));
  if (route == Route::staged && space.num_ranks() > kMaxStagedRanks)
    bad_input("route staged is for at most {} ranks, not {}; use auto, ring or direct", kMaxStagedRanks,
              space.num_ranks());
  if (route == Route::staged) return build_gather_first(p, space);
  Draft draft("all_gather gemm", route, p, space.num_ranks());
  draft.param("k", p.k);
  draft.param("strips", ceil_div(p.m, p.tile[0]));  // of rows, each with a counter
  const Expr strips = Expr::name("strips");
  const BoxRule whole{{0, 0}, {m, k}};
  const auto part = [](const Expr& rank) { return BoxRule{{rank * m, 0}, {rank * m + m, k}}; };
  const auto [input, gathered, y] = gather_buffers(&draft);
  const bool ring = route == Route::ring;
  const Expr reads = (N - 1) * strips * cols + (ring ? (N - 2) * strips : Expr(0));
  const int full = draft.counter("full", N * strips, 1), used = draft.counter("used", 1, reads);
  const int credit = draft.credit_counter(ring ? Expr(1) : N);

  Rule send = draft.trigger("send", whole);
  send.tile = {p.tile[0], 0};
  send.limit = Limit::peer;
  send.limit_peer = r;
  const Expr receivers = ring ? Expr(1) : N - 1;
  send.sources = {piece(input, whole)};
  send.waits = {wait(credit).index(ring ? Expr(0) : other(j)).lag(1).each(receivers)};
  send.targets = {piece(gathered, part(r)).of(other(j)).each(receivers)};
  send.signals = {signal(other(j), full).index(r * strips).per_lane().each(receivers)};
  draft.add(send);
  if (ring) {
    Rule forward = draft.trigger("gather", whole);
    forward.tile = send.tile;
    forward.limit = Limit::peer;
    forward.limit_peer = c;
    forward.count = N - 2;
    forward.let = {{"c", (r - 1 - s) % N}};
    forward.waits = {wait(full).index(c * strips).per_lane(), wait(credit).lag(1)};
    forward.sources = {piece(gathered, part(c))};
    forward.targets = {piece(gathered, part(c)).of(next)};
    forward.signals = {signal(next, full).index(c * strips).per_lane(), signal(r, used)};
    draft.add(forward);
  }
  // Its own rows first, then the others' in the order in which a ring brings them.
  Rule rule = draft.step("gemm", rows(c * m, c * m + m));
  rule.limit = Limit::peer;
  rule.limit_peer = c;
  rule.count = N;
  rule.let = {{"c", (r - s) % N}};
  rule.waits = {wait(full).index(c * strips).per_lanes(cols).when(gt(s, 0))};
  rule.reads = {piece(input, whole).when(eq(s, 0)), piece(gathered, part(c)).when(gt(s, 0))};
  rule.targets = {piece(y, rows(c * m, c * m + m))};
  rule.signals = {signal(r, used).when(gt(s, 0))};
  rule.finish = p.has_epilogue();
  draft.add(rule);
  draft.credit(wait(used).reaches(reads),
               {ring ? signal(previous, credit) : signal(other(j), credit).index(r).each(N - 1)});

  Owed rows_owed = owed_copy(gathered, N - 1, other(s), part(other(s)), false);
  rows_owed.leaf = -1 - input;
  draft.plan.owed = {owed_copy(y, 1, r, rows(0, N * m), p.has_epilogue()), rows_owed};
  return draft.plan;
}

}  // namespace weft
