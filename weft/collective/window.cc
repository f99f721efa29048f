// Sums of a window. Every owner has one slot per source, its own too, row-major and never packed, so that the rows of a
// window can be the pages of the slots (world/window.h). A step has no work: by the time it runs, the caller has
// written the rows through the window, and it only says so to the owner, which sums its N slots in the order in which
// all routes do: o + 1, o + 2, ..., o. Of an all_reduce the owner stores the sums to everybody. Slots have the type
// that is written: sums of bf16 rows are those of any other route given the same rows, in f32, rounded once.
#include <numeric>

#include "weft/collective/build.h"
#include "weft/collective/reduce.h"

namespace weft {

using namespace var;  // NOLINT: the vocabulary of rules

namespace {

struct Slots {
  int inbox, full, used, credit;
};

BoxRule window_slot(const Expr& at) { return rows(at * cap, at * cap + (b - a)); }

Slots window_slots(Draft& draft, const Producer& p, int num_ranks) {
  draft.param("cap", ceil_div(p.m, num_ranks));
  Buffer slots;
  slots.name = "inbox";
  slots.dtype = p.y();
  slots.shape = {N * cap, p.ld == 0 || p.ld == p.n ? n : Expr(p.ld)};
  return {draft.buffer(slots), draft.counter("full", N, gt(chunk_rows(r), 0)), draft.counter("used", 1, chunk_tiles(r)),
          draft.credit_counter(N)};
}

// Rank r is the s-th of the sources of chunk c. The credit is of the run before: the caller waits for it when it opens
// the window, before it has begun this run.
void add_window_steps(Draft& draft, const Slots& slots) {
  Rule write = draft.step("window", rows(a, b));
  write.count = N;
  write.let = {{"c", (r - 1 - s) % N}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  write.tile = {0, 0};
  write.waits = {wait(slots.credit).index(c).lag(1).when(ne(c, r))};
  write.targets = {piece(slots.inbox, window_slot(s)).of(c)};
  write.signals = {signal(c, slots.full).index(s)};
  draft.add(write);
}

// Of the owner; where the sums go is still to be said.
Rule window_sum(const Draft& draft, const Slots& slots) {
  Rule sum = draft.trigger("sum", rows(a, b));
  sum.let = {{"a", cut(m, N, r)}, {"b", cut(m, N, r + 1)}};
  sum.waits = {wait(slots.full).index(j).each(N)};
  sum.sources = {piece(slots.inbox, window_slot(j)).each(N)};
  sum.signals = {signal(r, slots.used)};
  return sum;
}

void add_window_credits(Draft& draft, const Slots& slots) {
  draft.credit(wait(slots.used).reaches(chunk_tiles(r)), {signal(other(j), slots.credit).index(r).each(N - 1)});
}

}  // namespace

// Rows of an owner are whole pages where they and the distance of rows make a multiple of a page together.
std::int64_t window_ld(std::int64_t num_rows, std::int64_t num_cols, int num_ranks, Dtype dtype) {
  constexpr std::int64_t kPageBytes = 4096;
  const std::int64_t in_a_page = kPageBytes / size_of(dtype);
  std::int64_t shared = in_a_page;
  for (int rank = 0; rank < num_ranks; ++rank)
    shared = std::gcd(shared, cut(num_rows, num_ranks, rank + 1) - cut(num_rows, num_ranks, rank));
  const std::int64_t unit = in_a_page / shared;
  return ceil_div(num_cols, unit) * unit;
}

Plan build_window_reduce_scatter(const Producer& p, const Space& space) {
  Draft draft("window reduce_scatter", Route::direct, p, space.num_ranks());
  const Slots slots = window_slots(draft, p, space.num_ranks());
  const int y = draft.output(chunk_rows(r), n);
  add_window_steps(draft, slots);
  Rule sum = window_sum(draft, slots);
  sum.targets = {piece(y, rows(0, b - a))};
  draft.add(sum);
  add_window_credits(draft, slots);
  draft.plan.owed = {owed_sum(draft, piece(y, rows(0, chunk_rows(r))), r)};
  return draft.plan;
}

Plan build_window_all_reduce(const Producer& p, const Space& space) {
  Draft draft("window all_reduce", Route::two_shot, p, space.num_ranks());
  const Slots slots = window_slots(draft, p, space.num_ranks());
  const int y = draft.output(m, n);
  const int open = draft.open_counter(N), got = draft.counter("got", N, chunk_tiles(i));
  draft.open({signal(other(j), open).index(r).each(N - 1)});
  add_window_steps(draft, slots);
  Rule sum = window_sum(draft, slots);
  sum.waits.push_back(wait(open).index(other(j)).each(N - 1));
  sum.targets = {piece(y, rows(a, b)).of((r + j) % N).each(N)};
  sum.signals.push_back(signal(other(j), got).index(r).each(N - 1));
  draft.add(sum);
  Rule arrive = draft.trigger("arrive");
  arrive.waits = {wait(got).index(other(j)).reaches(chunk_tiles(other(j))).each(N - 1)};
  draft.add(arrive);
  add_window_credits(draft, slots);
  draft.plan.owed = {owed_sums(draft, y)};
  return draft.plan;
}

}  // namespace weft
