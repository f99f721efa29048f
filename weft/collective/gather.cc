// Gathers and broadcasts: every rank's output on every rank, by stores to everybody or round a ring, and the same on
// the consumer's side, where the tiles of a gemm wait for the rows they read.
#include "weft/base/error.h"
#include "weft/collective/draft.h"

namespace weft {

using namespace var;  // NOLINT: the vocabulary of rules

Plan build_all_gather(const Producer& p, const Space& space, Route route) {
  check_same_width(p);
  if (p.residual) bad_input("all_gather has no residual: the rows that a rank makes are a part of those it keeps");
  Draft draft(fmt::format("{} all_gather {}", to_string(p.kind), to_string(route)), p, space.num_ranks());
  draft.param("slot", ceil_div(p.m, p.tile[0]) * ceil_div(p.n, p.tile[1]));
  const int y = draft.output(N * m, n);
  Rule rule = draft.step("make", rows(0, m));
  rule.finish = p.has_epilogue();
  if (route == Route::direct) {
    const int open = draft.counter("open", N, 1), got = draft.counter("got", N, slot);
    draft.open(open, other(j), N - 1, r);
    rule.waits = {{open, other(j), 1, 0, 0, N - 1}};
    rule.targets = {{(r + j) % N, y, stacked(r), N}};
    rule.signals = {{other(j), got, r, 0, N - 1}};
    draft.add(rule);
    Rule arrive = draft.trigger("arrive");
    arrive.waits = {{got, other(j), slot, 0, 0, N - 1}};
    draft.add(arrive);
  } else if (route == Route::ring) {
    const int open = draft.counter("open", 1, 1), got = draft.counter("got", N * slot, 1);
    draft.open(open, previous, 1, 0);
    rule.waits = {{open, 0}};
    rule.targets = {{r, y, stacked(r)}, {next, y, stacked(r)}};
    rule.signals = {{next, got, r * slot, 1}};
    draft.add(rule);
    Rule forward = draft.trigger("gather", rows(0, m));
    forward.count = N - 1;
    forward.let = {{"c", (r - 1 - s) % N}};
    const Expr onward = lt(s, N - 2);
    forward.waits = {{got, c * slot, 1, 0, 1}, {open, 0, 1, 0, 0, 1, onward}};
    forward.sources = {{r, y, stacked(c), 1, onward}};
    forward.targets = {{next, y, stacked(c), 1, onward}};
    forward.signals = {{next, got, c * slot, 1, 1, onward}};
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
  Draft draft(fmt::format("{} broadcast chain", to_string(p.kind)), p, num_ranks);
  draft.param("root", space.options.root);
  const Expr root = Expr::name("root"), onward = lt((r - root) % N, N - 1);
  draft.param("slot", ceil_div(p.m, p.tile[0]) * ceil_div(p.n, p.tile[1]));
  const int y = draft.output(m, n);
  const int open = draft.counter("open", 1, 1), got = draft.counter("got", slot, 1);
  draft.open(open, previous, 1, 0, ne(r, root));

  Rule rule = draft.step("make", rows(0, m));
  rule.when = eq(r, root);
  rule.waits = {{open, 0}};
  rule.targets = {{r, y, rows(0, m)}, {next, y, rows(0, m)}};
  rule.signals = {{next, got, 0, 1}};
  rule.finish = p.has_epilogue();
  draft.add(rule);

  Rule forward = draft.trigger("chain", rows(0, m));
  forward.when = ne(r, root);
  forward.waits = {{got, 0, 1, 0, 1}, {open, 0, 1, 0, 0, 1, onward}};
  forward.sources = {{r, y, rows(0, m), 1, onward}};
  forward.targets = {{next, y, rows(0, m), 1, onward}};
  forward.signals = {{next, got, 0, 1, 1, onward}};
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
  Draft draft(fmt::format("all_gather gemm {}", to_string(route)), p, space.num_ranks());
  draft.param("k", p.k);
  draft.param("strips", ceil_div(p.m, p.tile[0]));  // of rows, each with a counter
  const Expr strips = Expr::name("strips");
  const BoxRule whole{{0, 0}, {m, k}};
  const auto part = [](const Expr& rank) { return BoxRule{{rank * m, 0}, {rank * m + m, k}}; };
  const auto [input, gathered, y] = gather_buffers(&draft);
  const bool ring = route == Route::ring;
  const Expr reads = (N - 1) * strips * cols + (ring ? (N - 2) * strips : Expr(0));
  const int full = draft.counter("full", N * strips, 1), used = draft.counter("used", 1, reads);
  const int credit = draft.counter("credit", ring ? Expr(1) : N, 1);

  Rule send = draft.trigger("send", whole);
  send.tile = {p.tile[0], 0};
  send.limit = Limit::peer;
  send.limit_peer = r;
  send.sources = {{r, input, whole}};
  send.waits = {{credit, ring ? Expr(0) : other(j), 1, 1, 0, ring ? Expr(1) : N - 1}};
  send.targets = {{other(j), gathered, part(r), ring ? Expr(1) : N - 1}};
  send.signals = {{other(j), full, r * strips, 1, ring ? Expr(1) : N - 1}};
  draft.add(send);
  if (ring) {
    Rule forward = draft.trigger("gather", whole);
    forward.tile = send.tile;
    forward.limit = Limit::peer;
    forward.limit_peer = c;
    forward.count = N - 2;
    forward.let = {{"c", (r - 1 - s) % N}};
    forward.waits = {{full, c * strips, 1, 0, 1}, {credit, 0, 1, 1}};
    forward.sources = {{r, gathered, part(c)}};
    forward.targets = {{next, gathered, part(c)}};
    forward.signals = {{next, full, c * strips, 1}, {r, used, 0}};
    draft.add(forward);
  }
  // Its own rows first, then the others' in the order in which a ring brings them.
  Rule rule = draft.step("gemm", rows(c * m, c * m + m));
  rule.limit = Limit::peer;
  rule.limit_peer = c;
  rule.count = N;
  rule.let = {{"c", (r - s) % N}};
  rule.waits = {{full, c * strips, 1, 0, cols, 1, gt(s, 0)}};
  rule.reads = {{r, input, whole, 1, eq(s, 0)}, {r, gathered, part(c), 1, gt(s, 0)}};
  rule.targets = {{r, y, rows(c * m, c * m + m)}};
  rule.signals = {{r, used, 0, 0, 1, gt(s, 0)}};
  rule.finish = p.has_epilogue();
  draft.add(rule);
  draft.credit(used, reads, credit, ring ? previous : other(j), ring ? Expr(1) : N - 1, ring ? Expr(0) : r);

  Owed rows_owed = owed_copy(gathered, N - 1, other(s), part(other(s)), false);
  rows_owed.leaf = -1 - input;
  draft.plan.owed = {owed_copy(y, 1, r, rows(0, N * m), p.has_epilogue()), rows_owed};
  return draft.plan;
}

}  // namespace weft
