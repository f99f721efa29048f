// Reductions. All flat routes fold the contributions to rows owned by rank o in the order o + 1, o + 2, ..., o, each
// tile finished from zero first, and use the same tiles: so ring, direct, one-shot and two-shot agree bit for bit.
//
//   ring      chunk c visits the ranks c + 1, c + 2, ..., c. A rank makes its tile, adds the inbox tile, and stores the
//             sum into the next rank's inbox: no reduction pass, no copy. Rank r starts with chunk r - 1, its right
//             neighbour's last need but its own first send, so that every rank sends from the first tile on.
//   direct    every rank stores its tiles into the owner's inbox, one slot a source; the owner adds them all to its own.
//   two_shot  direct, then the owner stores the sums to everybody; in slices, so that the sums of one travel while the
//             next is made.
//   one_shot  every rank stores its tiles to everybody, and everybody adds: one latency, N times the bytes. Where a tile
//             has all rows, each rank makes it in one go and sends it in one piece, whoever owns which of its rows.
//
// Where an all_reduce's sums go to everybody in a narrow format, they go into "sums", the owner's copy too, and every
// rank takes its output from there, epilogue and all. A contribution is rounded once by direct, one_shot and two_shot, a
// partial sum at every hop of a ring; then the sum once, however far it goes.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/collective/draft.h"

namespace weft {
namespace {

using namespace var;  // NOLINT: the vocabulary of rules

std::int64_t all_tiles(const Producer& p, int num_ranks) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < num_ranks; ++rank)
    sum += ceil_div(cut(p.m, num_ranks, rank + 1) - cut(p.m, num_ranks, rank), p.tile[0]);
  return sum * ceil_div(p.n, p.tile[1]);
}

// Slots of inboxes hold `slot_rows` rows.
Draft reduce_draft(const char* name, const Producer& p, const Space& space, Route route, std::int64_t slot_rows) {
  if (!p.n_of.empty()) bad_input("outputs of different widths cannot be summed; give every rank the same n");
  const int num_ranks = space.num_ranks();
  Draft draft(fmt::format("{} {} {}", to_string(p.kind), name, to_string(route)), p, num_ranks);
  draft.param("cap", slot_rows);
  draft.param("slot", ceil_div(slot_rows, p.tile[0]) * ceil_div(p.n, p.tile[1]));
  draft.param("tiles", all_tiles(p, num_ranks));
  return draft;
}

// Chunks end where owners change: a slot holds the rows of one.
Draft reduce_draft(const char* name, const Producer& p, const Space& space, Route route) {
  return reduce_draft(name, p, space, route, ceil_div(p.m, space.num_ranks()));
}

// The owner's sum of chunk c, for s in 0 .. count - 1.
Owed owed_sum(const Draft& draft, int y, Expr count, const Expr& chunk, Expr lo, Expr hi) {
  Owed owed;
  owed.count = std::move(count);
  owed.piece = {r, y, rows(std::move(lo), std::move(hi))};
  owed.origin = {cut(m, N, chunk), 0};
  owed.first = (chunk + 1) % N;
  owed.contributors = N;
  owed.finished = draft.producer.has_epilogue();
  return owed;
}

BoxRule slot_part(const Expr& at) { return {{at * cap + (lo - a), x}, {at * cap + (hi - a), z}}; }

struct Ring {
  int inbox, full, used, credit;
};

// Steps of a ring in S slices, slices outermost, so that the first slice's sums are ready early.
Rule ring_step(Draft& draft, const Ring& ring, SlicedBy sliced) {
  Rule rule = draft.step("ring", {{lo, x}, {hi, z}});
  rule.count = N * S;
  rule.let = {{"i", s % N}, {"q", s / N}, {"c", (r - 1 - i) % N}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  for (Let& let : slice_lets(sliced)) rule.let.push_back(std::move(let));
  rule.waits = {{ring.full, (i - 1) * slot + u, 1, 0, 1, 1, gt(i, 0)}, {ring.credit, 0, 1, 1, 0, 1, lt(i, N - 1)}};
  rule.sources = {{r, ring.inbox, slot_part(i - 1), 1, gt(i, 0)}};
  rule.targets = {{next, ring.inbox, slot_part(i), 1, lt(i, N - 1)}};
  rule.signals = {{next, ring.full, i * slot + u, 1, 1, lt(i, N - 1)}, {r, ring.used, 0, 0, 1, gt(i, 0)}};
  rule.finish = draft.producer.has_epilogue() ? eq(i, N - 1) : Expr(0);
  return rule;
}

Ring ring_parts(Draft& draft, const Space& space, int slices) {
  draft.param("S", slices);
  Ring ring;
  ring.inbox = draft.inbox(N - 1, space.options.wire);
  ring.full = draft.counter("full", (N - 1) * slot, 1);
  ring.used = draft.counter("used", 1, tiles - chunk_tiles(previous));
  ring.credit = draft.counter("credit", 1, 1);
  return ring;
}

struct Direct {
  int inbox, full, used, credit;
};

Direct direct_parts(Draft& draft, const Space& space) {
  Direct parts;
  parts.inbox = draft.inbox(N - 1, space.options.wire);
  parts.full = draft.counter("full", (N - 1) * slot, 1);
  parts.used = draft.counter("used", 1, chunk_tiles(r));
  parts.credit = draft.counter("credit", N, 1);
  return parts;
}

// Others' chunks first, to slot s of their owners; this rank's own chunk last, when the others' tiles have come.
Rule direct_step(Draft& draft, const Direct& parts) {
  Rule rule = draft.step("direct", rows(a, b));
  rule.count = N;
  rule.let = {{"c", (r - 1 - s) % N}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  const Expr own = eq(s, N - 1), foreign = lt(s, N - 1);
  const auto slot_at = [](const Expr& at) { return rows(at * cap, at * cap + (b - a)); };
  rule.waits = {{parts.credit, c, 1, 1, 0, 1, foreign}, {parts.full, j * slot, 1, 0, 1, N - 1, own}};
  rule.sources = {{r, parts.inbox, slot_at(j), N - 1, own}};
  rule.targets = {{c, parts.inbox, slot_at(s), 1, foreign}};
  rule.signals = {{c, parts.full, s * slot, 1, 1, foreign}, {r, parts.used, 0, 0, 1, own}};
  rule.finish = draft.producer.has_epilogue() ? own : Expr(0);
  return rule;
}

void credit_everybody(Draft& draft, const Direct& parts) {
  draft.credit(parts.used, chunk_tiles(r), parts.credit, other(j), N - 1, r);
}

// Narrow sums of the chunks, one slot each, and how many of their tiles have come.
struct Sums {
  int buffer, y, got;
};

// Takes the output from them: chunk after chunk in the order in which they come, slice by slice; lets as `like` has them
// but for the loop.
void take_sums(Draft& draft, const Sums& sums, const Rule& like, const BoxRule& slot_box, const Expr& first) {
  Rule take = draft.trigger("take", like.box);
  take.count = N * S;
  take.let = like.let;
  take.waits = {{sums.got, c * slot + first, 1, 0, 1}};
  take.sources = {{r, sums.buffer, slot_box}};
  take.targets = {{r, sums.y, like.box}};
  take.finish = draft.producer.has_epilogue();
  draft.add(take);
}

// By rows, unless there are too few: weights are read in wide panels then.
Plan ring_all_reduce(const Producer& p, const Space& space, int slices) {
  Draft draft = reduce_draft("all_reduce", p, space, Route::ring);
  const Ring ring = ring_parts(draft, space, slices);
  const int y = draft.output(m, n);
  const int open = draft.counter("open", 1, 1), got = draft.counter("got", N * slot, 1);
  draft.open(open, previous, 1, 0);

  const bool narrow = sums_format(space) != Dtype::f32;
  const int sums = narrow ? draft.inbox(N, sums_format(space), "sums") : y;
  const std::int64_t tile_rows = ceil_div(ceil_div(p.m, space.num_ranks()), p.tile[0]);
  Rule rule = ring_step(draft, ring, tile_rows >= slices ? SlicedBy::rows : SlicedBy::columns);
  const BoxRule box = narrow ? slot_part(c) : rule.box;
  const Expr own = eq(i, N - 1);
  if (narrow) rule.finish = 0;
  if (narrow) rule.signals.push_back({r, got, c * slot + u, 1, 1, own});
  rule.waits.push_back({open, 0, 1, 0, 0, 1, own});
  rule.targets.push_back({r, sums, box, 1, own});
  rule.targets.push_back({next, sums, box, 1, own});
  rule.signals.push_back({next, got, c * slot + u, 1, 1, own});
  draft.add(rule);

  // Chunk c goes round until its owner is next.
  Rule forward = draft.trigger("gather", rule.box);
  forward.count = (N - 1) * S;
  forward.let = rule.let;
  forward.let[0] = {"i", s % (N - 1)};
  forward.let[1] = {"q", s / (N - 1)};
  const Expr onward = lt(i, N - 2);
  forward.waits = {{got, c * slot + u, 1, 0, 1}, {open, 0, 1, 0, 0, 1, onward}};
  forward.sources = {{r, sums, box, 1, onward}};
  forward.targets = {{next, sums, box, 1, onward}};
  forward.signals = {{next, got, c * slot + u, 1, 1, onward}};
  draft.add(forward);
  if (narrow) take_sums(draft, {sums, y, got}, rule, box, u);

  draft.credit(ring.used, tiles - chunk_tiles(previous), ring.credit, previous, 1, 0);
  draft.plan.owed = {owed_sum(draft, y, N, s, cut(m, N, s), cut(m, N, s + 1))};
  return draft.plan;
}

// Turn d makes slice d of the others' chunks and then slice d - 1 of this rank's own: what the others send for a slice
// has a whole turn to arrive, so a slow link holds no thread up that has something else to make.
Rule two_shot_step(Draft& draft, const Direct& parts, int slices) {
  const BoxRule whole{{lo, x}, {hi, z}};
  Rule rule = draft.step("two_shot", whole);
  const Expr own = eq(i, N - 1), foreign = lt(i, N - 1);
  rule.count = N * (S + 1);
  rule.when = own * gt(d, 0) + foreign * lt(d, S);
  rule.let = {{"i", s % N},           {"d", s / N},        {"q", (d - own) % S},
              {"c", (r - 1 - i) % N}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  for (Let& let : slice_lets(columns_first(draft.producer, slices))) rule.let.push_back(std::move(let));
  rule.waits = {{parts.credit, c, 1, 1, 0, 1, foreign}, {parts.full, j * slot + u, 1, 0, 1, N - 1, own}};
  rule.sources = {{r, parts.inbox, slot_part(j), N - 1, own}};
  rule.targets = {{c, parts.inbox, slot_part(i), 1, foreign}};
  rule.signals = {{c, parts.full, i * slot + u, 1, 1, foreign}, {r, parts.used, 0, 0, 1, own}};
  rule.finish = draft.producer.has_epilogue() ? own : Expr(0);
  return rule;
}

Plan two_shot_all_reduce(const Producer& p, const Space& space, int slices) {
  Draft draft = reduce_draft("all_reduce", p, space, Route::two_shot);
  draft.param("S", slices);
  const Direct parts = direct_parts(draft, space);
  const int y = draft.output(m, n);
  const bool narrow = sums_format(space) != Dtype::f32;
  const int open = draft.counter("open", N, 1);
  const int got = narrow ? draft.counter("got", N * slot, 1) : draft.counter("got", N, chunk_tiles(i));
  draft.open(open, other(j), N - 1, r);

  Rule rule = two_shot_step(draft, parts, slices);
  const Expr own = eq(i, N - 1);
  rule.waits.push_back({open, other(j), 1, 0, 0, N - 1, own});
  if (narrow) {
    const int sums = draft.inbox(N, sums_format(space), "sums");
    rule.finish = 0;
    rule.targets.push_back({(r + j) % N, sums, slot_part(c), N, own});  // its own first: rounded there, then copied
    rule.signals.push_back({(r + j) % N, got, c * slot + u, 1, N, own});
    draft.add(rule);
    for (Let& let : rule.let)
      if (let.name == "q") let.value = d;
    take_sums(draft, {sums, y, got}, rule, slot_part(c), u);
  } else {
    rule.targets.push_back({(r + j) % N, y, rule.box, N, own});  // its own first: the residual is indexed as that
    rule.signals.push_back({other(j), got, r, 0, N - 1, own});
    draft.add(rule);
    Rule arrive = draft.trigger("arrive");
    arrive.waits = {{got, other(j), chunk_tiles(other(j)), 0, 0, N - 1}};
    draft.add(arrive);
  }
  credit_everybody(draft, parts);
  draft.plan.owed = {owed_sum(draft, y, N, s, cut(m, N, s), cut(m, N, s + 1))};
  return draft.plan;
}

Plan one_shot_all_reduce(const Producer& p, const Space& space) {
  if (space.num_ranks() > kMaxOneShotRanks)
    bad_input("route one_shot is for at most {} ranks, not {}; use two_shot or ring", kMaxOneShotRanks,
              space.num_ranks());
  const bool whole = p.tile[0] >= p.m;
  Draft draft = reduce_draft("all_reduce", p, space, Route::one_shot, whole ? p.m : ceil_div(p.m, space.num_ranks()));
  const Expr slots = whole ? N : N * N;
  const int inbox = draft.inbox(slots, space.options.wire);
  const int full = draft.counter("full", slots * slot, 1), used = draft.counter("used", 1, tiles);
  const int credit = draft.counter("credit", N, 1);
  const int y = draft.output(m, n);
  const std::vector<Let> chunk = {{"c", (r + s) % N}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  const auto place = [&](const Expr& from) { return whole ? from : c * N + from; };
  const auto part_of = [&](const Expr& from) {
    const Expr slot_begin = place(from) * cap;
    return whole ? rows(slot_begin + a, slot_begin + b) : rows(slot_begin, slot_begin + (b - a));
  };

  Rule rule = draft.step("scatter", rows(a, b));
  rule.count = whole ? Expr(1) : N;
  rule.let = whole ? std::vector<Let>{{"a", 0}, {"b", m}} : chunk;
  rule.waits = {{credit, other(j), 1, 1, 0, N - 1}};
  rule.targets = {{(r + j) % N, inbox, part_of(r), N}};
  rule.signals = {{(r + j) % N, full, place(r) * slot, 1, N}};
  draft.add(rule);

  Rule sum = draft.trigger("sum", rows(a, b));
  sum.count = N;
  sum.let = chunk;
  const Expr maker = (c + 1 + j) % N;
  sum.waits = {{full, place(maker) * slot, 1, 0, 1, N}};
  sum.sources = {{r, inbox, part_of(maker), N}};
  sum.targets = {{r, y, rows(a, b)}};
  sum.signals = {{r, used, 0}};
  sum.finish = p.has_epilogue();
  draft.add(sum);
  draft.credit(used, tiles, credit, other(j), N - 1, r);
  draft.plan.owed = {owed_sum(draft, y, N, s, cut(m, N, s), cut(m, N, s + 1))};
  return draft.plan;
}

}  // namespace

Plan build_reduce_scatter(const Producer& p, const Space& space, Route route) {
  Draft draft = reduce_draft("reduce_scatter", p, space, route);
  const Expr mine = chunk_rows(r);
  if (route == Route::ring) {
    const Ring ring = ring_parts(draft, space, 1);
    const int y = draft.output(mine, n);
    Rule rule = ring_step(draft, ring, SlicedBy::rows);
    rule.targets.push_back({r, y, {{lo - a, x}, {hi - a, z}}, 1, eq(i, N - 1)});
    draft.add(rule);
    draft.credit(ring.used, tiles - chunk_tiles(previous), ring.credit, previous, 1, 0);
    draft.plan.owed = {owed_sum(draft, y, 1, r, 0, mine)};
    return draft.plan;
  }
  if (route != Route::direct) bad_input("reduce_scatter has no route {}; use auto, ring or direct", to_string(route));
  const Direct parts = direct_parts(draft, space);
  const int y = draft.output(mine, n);
  Rule rule = direct_step(draft, parts);
  rule.targets.push_back({r, y, rows(0, b - a), 1, eq(s, N - 1)});
  draft.add(rule);
  credit_everybody(draft, parts);
  draft.plan.owed = {owed_sum(draft, y, 1, r, 0, mine)};
  return draft.plan;
}

Plan build_all_reduce(const Producer& p, const Space& space, Route route) {
  // In one slice the second half of an all-reduce has nothing to hide behind. A slice is at least one row of tiles, or
  // one column. gemm-ar 256 x 2128 x 2128, 4 ranks, 250 Mbit/s, two_shot in 1 / 2 / 4 / 8 slices: 63.4, 61.1,
  // 55.2, 54.6 ms (compute 49). Many ranks have small chunks anyway, and a proof that looks at each.
  const int n = space.num_ranks();
  const std::int64_t tile_rows = ceil_div(ceil_div(p.m, n), p.tile[0]), tile_cols = ceil_div(p.n, p.tile[1]);
  const auto slices = [&](int chosen, std::int64_t most) {
    const std::int64_t wanted = space.options.slices > 0 ? space.options.slices : chosen;
    return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
  };
  switch (route) {
    case Route::ring:
      return ring_all_reduce(p, space, slices(n >= 4 ? 4 : 2, n <= 32 ? std::max(tile_rows, tile_cols) : tile_rows));
    case Route::two_shot:
      return two_shot_all_reduce(p, space, slices(std::clamp(128 / n, 1, 8), std::max(tile_rows, tile_cols)));
    case Route::one_shot:
      return one_shot_all_reduce(p, space);
    default:
      bad_input("all_reduce has no route {}; use auto, ring, one_shot or two_shot", to_string(route));
  }
}

}  // namespace weft
