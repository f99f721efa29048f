// Reductions. All flat routes fold the contributions to rows owned by rank o in the order o + 1, o + 2, ..., o, each
// tile finished from zero first, and use the same tiles: so ring, direct, one-shot and two-shot agree bit for bit.
//
//   ring      chunk c visits the ranks c + 1, c + 2, ..., c. A rank makes its tile, adds the inbox tile, and stores the
//             sum into the next rank's inbox: no reduction pass, no copy. Rank r starts with chunk r - 1, its right
//             neighbour's last need but its own first send, so that every rank sends from the first tile on.
//   direct    every rank stores its tiles into the owner's inbox, one slot per source; the owner adds them all to its
//             own.
//   two_shot  direct, then the owner stores the sums to everybody (all_reduce.cc).
//   one_shot  every rank stores its tiles to everybody, and everybody adds: one latency, N times the bytes. Where a
//             tile has all rows, each rank makes it in one go and sends it in one piece, whoever owns which of its
//             rows.
#include "weft/collective/reduce.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft {

using namespace var;  // NOLINT: the vocabulary of rules

namespace {

std::int64_t all_tiles(const Producer& p, int num_ranks) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < num_ranks; ++rank)
    sum += ceil_div(cut(p.m, num_ranks, rank + 1) - cut(p.m, num_ranks, rank), p.tile[0]);
  return sum * ceil_div(p.n, p.tile[1]);
}

}  // namespace

Draft reduce_draft(const char* name, const Producer& p, const Space& space, Route route, std::int64_t slot_rows) {
  if (!p.n_of.empty()) bad_input("outputs of different widths cannot be summed; give every rank the same n");
  const int num_ranks = space.num_ranks();
  if (slot_rows == 0) slot_rows = ceil_div(p.m, num_ranks);
  Draft draft(fmt::format("{} {}", to_string(p.kind), name), route, p, num_ranks);
  draft.param("cap", slot_rows);
  draft.param("slot", ceil_div(slot_rows, p.tile[0]) * ceil_div(p.n, p.tile[1]));
  draft.param("tiles", all_tiles(p, num_ranks));
  return draft;
}

void check_equal_chunks(const Producer& p, const Space& space, Route route) {
  const int num_ranks = space.num_ranks();
  if (p.m % num_ranks != 0)
    bad_input("route {} cuts {} rows into {} equal chunks: {} are left over; use {} rows, or ring", to_string(route),
              p.m, num_ranks, p.m % num_ranks, p.m + num_ranks - p.m % num_ranks);
  if (space.options.wire != Dtype::f32 || sums_format(space) != Dtype::f32)
    bad_input("route {} sends f32; leave wire and wire_sums out, or use ring or two_shot", to_string(route));
}

std::int64_t rows_of_tiles(std::int64_t chunk, std::int64_t most) {
  std::int64_t rows = std::min(chunk, most);
  while (chunk % rows != 0) --rows;
  return rows;
}

Owed owed_sum(const Draft& draft, PieceRule piece, const Expr& chunk) {
  Owed owed;
  owed.piece = std::move(piece);
  owed.origin = {cut(m, N, chunk), 0};
  owed.first = (chunk + 1) % N;
  owed.contributors = N;
  owed.finished = draft.producer.has_epilogue();
  return owed;
}

Owed owed_sums(const Draft& draft, int y) {
  Owed owed = owed_sum(draft, piece(y, rows(cut(m, N, s), cut(m, N, s + 1))), s);
  owed.count = N;
  return owed;
}

BoxRule slot_part(const Expr& at) { return {{at * cap + (lo - a), x}, {at * cap + (hi - a), z}}; }

Rule ring_step(const Draft& draft, const Inbox& ring, SlicedBy sliced) {
  Rule rule = draft.step("ring", {{lo, x}, {hi, z}});
  rule.count = N * S;
  rule.let = {{"i", s % N}, {"q", s / N}, {"c", (r - 1 - i) % N}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  for (Let& let : slice_lets(sliced)) rule.let.push_back(std::move(let));
  const Expr takes = gt(i, 0), passes = lt(i, N - 1);
  rule.waits = {wait(ring.full).index((i - 1) * slot + u).per_lane().when(takes),
                wait(ring.credit).lag(1).when(passes)};
  rule.sources = {piece(ring.buffer, slot_part(i - 1)).when(takes)};
  rule.targets = {piece(ring.buffer, slot_part(i)).of(next).when(passes)};
  rule.signals = {signal(next, ring.full).index(i * slot + u).per_lane().when(passes),
                  signal(r, ring.used).when(takes)};
  rule.finish = draft.producer.has_epilogue() ? eq(i, N - 1) : Expr(0);
  return rule;
}

Inbox ring_inbox(Draft& draft, const Space& space, int slices) {
  draft.param("S", slices);
  Inbox ring;
  ring.buffer = draft.inbox(N - 1, space.options.wire);
  ring.full = draft.counter("full", (N - 1) * slot, 1);
  ring.used = draft.counter("used", 1, tiles - chunk_tiles(previous));
  ring.credit = draft.credit_counter(1);
  return ring;
}

void credit_previous(Draft& draft, const Inbox& ring) {
  draft.credit(wait(ring.used).reaches(tiles - chunk_tiles(previous)), {signal(previous, ring.credit)});
}

Inbox direct_inbox(Draft& draft, const Space& space) {
  Inbox inbox;
  inbox.buffer = draft.inbox(N - 1, space.options.wire);
  inbox.full = draft.counter("full", (N - 1) * slot, 1);
  inbox.used = draft.counter("used", 1, chunk_tiles(r));
  inbox.credit = draft.credit_counter(N);
  return inbox;
}

void credit_everybody(Draft& draft, const Inbox& inbox) {
  draft.credit(wait(inbox.used).reaches(chunk_tiles(r)), {signal(other(j), inbox.credit).index(r).each(N - 1)});
}

namespace {

// Others' chunks first, to slot s of their owners; this rank's own chunk last, when the others' tiles have come.
Rule direct_step(const Draft& draft, const Inbox& inbox) {
  Rule rule = draft.step("direct", rows(a, b));
  rule.count = N;
  rule.let = {{"c", (r - 1 - s) % N}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  const Expr own = eq(s, N - 1), foreign = lt(s, N - 1);
  const auto slot_at = [](const Expr& at) { return rows(at * cap, at * cap + (b - a)); };
  rule.waits = {wait(inbox.credit).index(c).lag(1).when(foreign),
                wait(inbox.full).index(j * slot).per_lane().each(N - 1).when(own)};
  rule.sources = {piece(inbox.buffer, slot_at(j)).each(N - 1).when(own)};
  rule.targets = {piece(inbox.buffer, slot_at(s)).of(c).when(foreign)};
  rule.signals = {signal(c, inbox.full).index(s * slot).per_lane().when(foreign), signal(r, inbox.used).when(own)};
  rule.finish = draft.producer.has_epilogue() ? own : Expr(0);
  return rule;
}

}  // namespace

Plan build_reduce_scatter(const Producer& p, const Space& space, Route route) {
  Draft draft = reduce_draft("reduce_scatter", p, space, route);
  const Expr mine = chunk_rows(r);
  if (route == Route::ring) {
    const Inbox ring = ring_inbox(draft, space, 1);
    const int y = draft.output(mine, n);
    Rule rule = ring_step(draft, ring, SlicedBy::rows);
    rule.targets.push_back(piece(y, {{lo - a, x}, {hi - a, z}}).when(eq(i, N - 1)));
    draft.add(rule);
    credit_previous(draft, ring);
    draft.plan.owed = {owed_sum(draft, piece(y, rows(0, mine)), r)};
    return draft.plan;
  }
  if (route != Route::direct) bad_input("reduce_scatter has no route {}; use auto, ring or direct", to_string(route));
  const Inbox inbox = direct_inbox(draft, space);
  const int y = draft.output(mine, n);
  Rule rule = direct_step(draft, inbox);
  rule.targets.push_back(piece(y, rows(0, b - a)).when(eq(s, N - 1)));
  draft.add(rule);
  credit_everybody(draft, inbox);
  draft.plan.owed = {owed_sum(draft, piece(y, rows(0, mine)), r)};
  return draft.plan;
}

}  // namespace weft
