// The reduce-scatter of a window. Every owner has one slot per source, its own too, row-major and never packed, so that
// the rows of a window can be the pages of the slots (world/window.h). A step has no work: by the time it runs, the
// caller has written the rows through the window, and it only says so to the owner, which sums its N slots in the
// order in which all routes do: o + 1, o + 2, ..., o.
#include "weft/collective/reduce.h"

namespace weft {

using namespace var;  // NOLINT: the vocabulary of rules

Plan build_window_reduce_scatter(const Producer& p, const Space& space) {
  const int num_ranks = space.num_ranks();
  Draft draft("window reduce_scatter", Route::direct, p, num_ranks);
  draft.param("cap", ceil_div(p.m, num_ranks));
  Buffer slots;
  slots.name = "inbox";
  slots.shape = {N * cap, n};
  const int inbox = draft.buffer(slots);
  const int y = draft.output(chunk_rows(r), n);
  const int full = draft.counter("full", N, gt(chunk_rows(r), 0));
  const int used = draft.counter("used", 1, chunk_tiles(r));
  const int credit = draft.credit_counter(N);
  const auto slot_at = [](const Expr& at) { return rows(at * cap, at * cap + (b - a)); };

  // Rank r is the s-th of the sources of chunk c. The credit is of the run before: the caller waits for it when it
  // opens the window, before it has begun this run.
  Rule write = draft.step("window", rows(a, b));
  write.count = N;
  write.let = {{"c", (r - 1 - s) % N}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  write.tile = {0, 0};
  write.waits = {wait(credit).index(c).lag(1).when(ne(c, r))};
  write.targets = {piece(inbox, slot_at(s)).of(c)};
  write.signals = {signal(c, full).index(s)};
  draft.add(write);

  Rule sum = draft.trigger("sum", rows(a, b));
  sum.let = {{"a", cut(m, N, r)}, {"b", cut(m, N, r + 1)}};
  sum.waits = {wait(full).index(j).each(N)};
  sum.sources = {piece(inbox, slot_at(j)).each(N)};
  sum.targets = {piece(y, rows(0, b - a))};
  sum.signals = {signal(r, used)};
  draft.add(sum);
  draft.credit(wait(used).reaches(chunk_tiles(r)), {signal(other(j), credit).index(r).each(N - 1)});

  draft.plan.owed = {owed_sum(draft, piece(y, rows(0, chunk_rows(r))), r)};
  return draft.plan;
}

}  // namespace weft
