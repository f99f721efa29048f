// An all_reduce dimension by dimension, for ranks on a torus of H x L: rank r is the place r % L of row r / L, and all
// that moves goes to a neighbour. The rows of the output are cut into L blocks, one per place, of H chunks each.
//
//   along rows      block p visits the places p + 1, p + 2, ..., p: each makes its tiles, adds what came, and passes on
//   along columns   chunk g of the block that stays visits the rows g + 1, ..., g in the same way: its tiles are made
//                   on the way, so no pass over memory is made only to add
//   and back        finished chunks go down the column, then blocks go along the row
//
//   bytes   those of a ring; 2 (L - 1) + 2 (H - 1) latencies in place of 2 (N - 1)
//   order   of rows first, then of columns: not that of flat routes, so the plan says sum = any: each contribution
//           once, in an order of its own, the same in every run
//   tiles   end where chunks do, so chunks are of equal rows
#include <algorithm>

#include "weft/base/error.h"
#include "weft/collective/reduce.h"
#include "weft/collective/two_level.h"

namespace weft {
namespace {

using namespace var;  // NOLINT: the vocabulary of rules

const Expr right = host * L + (r + 1) % L, left = host * L + (r - 1) % L, below = (r + L) % N, above = (r - L) % N;
const Expr G = Expr::name("G"), B = Expr::name("B");  // chunk of a block, block

struct TorusParts {
  int rows, columns;            // inboxes: L - 1 blocks, H - 1 chunks
  int full_rows, full_columns;  // tiles of them that are there
  int used_rows, used_columns, credit;
  int y, open, got;
};

void check_torus(const Producer& p, const Space& space, int rows, int columns) {
  const int n = space.num_ranks();
  if (rows < 2 || columns < 2 || rows * columns != n)
    bad_input("route torus is for rows times columns, 2 or more of each, but {} ranks are on {} x {}; use ring", n,
              rows, columns);
  if (p.m % n != 0)
    bad_input("route torus cuts {} rows into {} equal chunks: {} are left over; use {} rows, or ring", p.m, n, p.m % n,
              p.m + n - p.m % n);
  if (space.options.wire != Dtype::f32 || sums_format(space) != Dtype::f32)
    bad_input("route torus sends f32; leave wire and wire_sums out, or use ring or two_shot");
}

TorusParts torus_parts(Draft& draft) {
  TorusParts out;
  const auto inbox = [&](const char* name, const Expr& chunks) {
    Buffer buffer;
    buffer.name = name, buffer.shape = {chunks * cap, n};
    return draft.buffer(buffer);
  };
  out.rows = inbox("inbox", (L - 1) * H), out.columns = inbox("columns", H - 1);
  out.full_rows = draft.counter("full", (L - 1) * H * slot, 1);
  out.full_columns = draft.counter("full_columns", (H - 1) * slot, 1);
  out.used_rows = draft.counter("used", 1, (L - 1) * H * slot);
  out.used_columns = draft.counter("used_columns", 1, (H - 1) * slot);
  out.credit = draft.credit_counter(2);
  out.y = draft.output(m, n);
  out.open = draft.open_counter(2);
  out.got = draft.counter("got", N * slot, 1);
  return out;
}

BoxRule chunk_at(const Expr& slot_of) { return rows(slot_of * cap, slot_of * cap + cap); }

// Blocks of the other places, chunk by chunk in the order in which this row will pass them down its columns. All ranks
// of a row have the same order, so slots are numbered by turns.
Rule pass_rows(const Draft& draft, const TorusParts& t) {
  Rule rule = draft.step("rows", rows(a, b));
  rule.count = (L - 1) * H;
  rule.let = {{"B", (place - 1 - s / H) % L},
              {"G", (host - 1 - s) % H},
              {"c", B * H + G},
              {"a", cut(m, N, c)},
              {"b", cut(m, N, c + 1)}};
  const Expr takes = gt(s, H - 1);
  rule.waits = {wait(t.full_rows).index((s - H) * slot).per_lane().when(takes), wait(t.credit).index(1).lag(1)};
  rule.sources = {piece(t.rows, chunk_at(s - H)).when(takes)};
  rule.targets = {piece(t.rows, chunk_at(s)).of(right)};
  rule.signals = {signal(right, t.full_rows).index(s * slot).per_lane(), signal(r, t.used_rows).when(takes)};
  return rule;
}

// This place's block, chunk by chunk, the next row's last need first; its own chunk last.
Rule pass_columns(const Draft& draft, const TorusParts& t) {
  Rule rule = draft.step("columns", rows(a, b));
  const Expr last = (L - 2) * H + s, own = eq(s, H - 1), takes = gt(s, 0), passes = lt(s, H - 1);
  rule.count = H;
  rule.let = {{"G", (host - 1 - s) % H}, {"c", place * H + G}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  rule.waits = {wait(t.full_rows).index(last * slot).per_lane(),
                wait(t.full_columns).index((s - 1) * slot).per_lane().when(takes),
                wait(t.credit).index(0).lag(1).when(passes), wait(t.open).index(0).when(own)};
  rule.sources = {piece(t.columns, chunk_at(s - 1)).when(takes), piece(t.rows, chunk_at(last))};
  rule.targets = {piece(t.columns, chunk_at(s)).of(below).when(passes), piece(t.y, rows(a, b)).when(own),
                  piece(t.y, rows(a, b)).of(below).when(own)};
  rule.signals = {signal(below, t.full_columns).index(s * slot).per_lane().when(passes), signal(r, t.used_rows),
                  signal(r, t.used_columns).when(takes), signal(r, t.got).index(c * slot).per_lane().when(own),
                  signal(below, t.got).index(c * slot).per_lane().when(own)};
  rule.finish = draft.producer.has_epilogue() ? own : Expr(0);
  return rule;
}

// A chunk that has come goes on to `to` where `onward`, else it is only waited for.
void add_gather(Draft& draft, const TorusParts& t, Rule rule, const Expr& to, int open, const Expr& onward) {
  rule.waits = {wait(t.got).index(c * slot).per_lane(), wait(t.open).index(open).when(onward)};
  rule.sources = {piece(t.y, rows(a, b)).when(onward)};
  rule.targets = {piece(t.y, rows(a, b)).of(to).when(onward)};
  rule.signals = {signal(to, t.got).index(c * slot).per_lane().when(onward)};
  draft.add(std::move(rule));
}

void add_gathers(Draft& draft, const TorusParts& t) {
  Rule columns = draft.trigger("gather_columns", rows(a, b));
  columns.count = H - 1;
  columns.let = {{"G", (host - 1 - s) % H}, {"c", place * H + G}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  add_gather(draft, t, columns, below, 0, lt(s, H - 2));
  Rule along = draft.trigger("gather_rows", rows(a, b));
  along.count = N;
  along.let = {{"i", s / H},     {"B", (place - i) % L}, {"G", (host - s) % H},
               {"c", B * H + G}, {"a", cut(m, N, c)},    {"b", cut(m, N, c + 1)}};
  add_gather(draft, t, along, right, 1, lt(i, L - 1));
}

}  // namespace

std::vector<int> torus_of(const Space& space) {
  if (!space.options.torus.empty()) return space.options.torus;
  const int n = space.num_ranks();
  int columns = 1;
  for (int size = 1; size * size <= n; ++size)
    if (n % size == 0) columns = size;
  return {n / columns, columns};
}

Plan build_torus_all_reduce(Producer p, const Space& space) {
  const std::vector<int> dims = torus_of(space);
  if (dims.size() != 2) bad_input("a torus of {} dimensions; route torus has rows and columns", dims.size());
  check_torus(p, space, dims[0], dims[1]);
  const std::int64_t chunk = p.m / space.num_ranks();
  p.tile[0] = std::min(chunk, p.tile[0]);
  while (chunk % p.tile[0] != 0) --p.tile[0];
  Draft draft = reduce_draft("all_reduce", p, space, Route::torus);
  draft.plan.sum = Sum::any;
  draft.param("L", dims[1]);
  draft.param("H", dims[0]);
  const TorusParts t = torus_parts(draft);
  draft.open({signal(above, t.open).index(0), signal(left, t.open).index(1)});
  draft.add(pass_rows(draft, t));
  draft.add(pass_columns(draft, t));
  add_gathers(draft, t);
  draft.credit(wait(t.used_rows).reaches((L - 1) * H * slot), {signal(left, t.credit).index(1)});
  draft.credit(wait(t.used_columns).reaches((H - 1) * slot), {signal(above, t.credit).index(0)});
  draft.plan.owed = {owed_sums(draft, t.y)};
  return draft.plan;
}

}  // namespace weft
