// Reductions. All flat routes fold the contributions to rows owned by rank o in the order o + 1, o + 2, ..., o, each
// tile finished from zero first, and use the same tiles: so ring, direct, one-shot and two-shot agree bit for bit.
//
//   ring      chunk c visits the ranks c + 1, c + 2, ..., c. A rank makes its tile, adds the inbox tile, and stores the
//             sum into the next rank's inbox: no reduction pass, no copy. Rank r starts with chunk r - 1, its right
//             neighbour's last need but its own first send, so that every rank sends from the first tile on.
//   direct    every rank stores its tiles into the owner's inbox, one slot per source; the owner adds them all to its
//             own.
//   two_shot  direct, then the owner stores the sums to everybody; in slices, so that the sums of one travel while the
//             next is made.
//   one_shot  every rank stores its tiles to everybody, and everybody adds: one latency, N times the bytes. Where a
//             tile has all rows, each rank makes it in one go and sends it in one piece, whoever owns which of its
//             rows.
//
// Where an all_reduce's sums go to everybody in a narrow format, they go into "sums", the owner's copy too, and every
// rank takes its output from there, epilogue and all. A contribution is rounded once by direct, one_shot and two_shot,
// a partial sum at every hop of a ring; then the sum once, however far it goes.
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
  Draft draft(fmt::format("{} {}", to_string(p.kind), name), route, p, num_ranks);
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
  owed.piece = piece(y, rows(std::move(lo), std::move(hi)));
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
  const Expr takes = gt(i, 0), passes = lt(i, N - 1);
  rule.waits = {wait(ring.full).index((i - 1) * slot + u).per_lane().when(takes),
                wait(ring.credit).lag(1).when(passes)};
  rule.sources = {piece(ring.inbox, slot_part(i - 1)).when(takes)};
  rule.targets = {piece(ring.inbox, slot_part(i)).of(next).when(passes)};
  rule.signals = {signal(next, ring.full).index(i * slot + u).per_lane().when(passes),
                  signal(r, ring.used).when(takes)};
  rule.finish = draft.producer.has_epilogue() ? eq(i, N - 1) : Expr(0);
  return rule;
}

Ring ring_parts(Draft& draft, const Space& space, int slices) {
  draft.param("S", slices);
  Ring ring;
  ring.inbox = draft.inbox(N - 1, space.options.wire);
  ring.full = draft.counter("full", (N - 1) * slot, 1);
  ring.used = draft.counter("used", 1, tiles - chunk_tiles(previous));
  ring.credit = draft.credit_counter(1);
  return ring;
}

void credit_previous(Draft& draft, const Ring& ring) {
  draft.credit(wait(ring.used).reaches(tiles - chunk_tiles(previous)), {signal(previous, ring.credit)});
}

struct Direct {
  int inbox, full, used, credit;
};

Direct direct_parts(Draft& draft, const Space& space) {
  Direct parts;
  parts.inbox = draft.inbox(N - 1, space.options.wire);
  parts.full = draft.counter("full", (N - 1) * slot, 1);
  parts.used = draft.counter("used", 1, chunk_tiles(r));
  parts.credit = draft.credit_counter(N);
  return parts;
}

// Others' chunks first, to slot s of their owners; this rank's own chunk last, when the others' tiles have come.
Rule direct_step(Draft& draft, const Direct& parts) {
  Rule rule = draft.step("direct", rows(a, b));
  rule.count = N;
  rule.let = {{"c", (r - 1 - s) % N}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  const Expr own = eq(s, N - 1), foreign = lt(s, N - 1);
  const auto slot_at = [](const Expr& at) { return rows(at * cap, at * cap + (b - a)); };
  rule.waits = {wait(parts.credit).index(c).lag(1).when(foreign),
                wait(parts.full).index(j * slot).per_lane().each(N - 1).when(own)};
  rule.sources = {piece(parts.inbox, slot_at(j)).each(N - 1).when(own)};
  rule.targets = {piece(parts.inbox, slot_at(s)).of(c).when(foreign)};
  rule.signals = {signal(c, parts.full).index(s * slot).per_lane().when(foreign), signal(r, parts.used).when(own)};
  rule.finish = draft.producer.has_epilogue() ? own : Expr(0);
  return rule;
}

void credit_everybody(Draft& draft, const Direct& parts) {
  draft.credit(wait(parts.used).reaches(chunk_tiles(r)), {signal(other(j), parts.credit).index(r).each(N - 1)});
}

// Narrow sums of the chunks, one slot each, and how many of their tiles have come.
struct Sums {
  int buffer, y, got;
};

// Takes the output from them: chunk after chunk in the order in which they come, slice by slice; lets as `like` has
// them but for the loop.
void take_sums(Draft& draft, const Sums& sums, const Rule& like, const BoxRule& slot_box, const Expr& first) {
  Rule take = draft.trigger("take", like.box);
  take.count = N * S;
  take.let = like.let;
  take.waits = {wait(sums.got).index(c * slot + first).per_lane()};
  take.sources = {piece(sums.buffer, slot_box)};
  take.targets = {piece(sums.y, like.box)};
  take.finish = draft.producer.has_epilogue();
  draft.add(take);
}

// By rows, unless there are too few: weights are read in wide panels then.
Plan ring_all_reduce(const Producer& p, const Space& space, int slices) {
  Draft draft = reduce_draft("all_reduce", p, space, Route::ring);
  const Ring ring = ring_parts(draft, space, slices);
  const int y = draft.output(m, n);
  const int open = draft.open_counter(1), got = draft.counter("got", N * slot, 1);
  draft.open({signal(previous, open)});

  const bool narrow = sums_format(space) != Dtype::f32;
  const int sums = narrow ? draft.inbox(N, sums_format(space), "sums") : y;
  const std::int64_t tile_rows = ceil_div(ceil_div(p.m, space.num_ranks()), p.tile[0]);
  Rule rule = ring_step(draft, ring, tile_rows >= slices ? SlicedBy::rows : SlicedBy::columns);
  const BoxRule box = narrow ? slot_part(c) : rule.box;
  const Expr own = eq(i, N - 1);
  if (narrow) rule.finish = 0;
  const Expr tile = c * slot + u;
  if (narrow) rule.signals.push_back(signal(r, got).index(tile).per_lane().when(own));
  rule.waits.push_back(wait(open).when(own));
  rule.targets.push_back(piece(sums, box).when(own));
  rule.targets.push_back(piece(sums, box).of(next).when(own));
  rule.signals.push_back(signal(next, got).index(tile).per_lane().when(own));
  draft.add(rule);

  // Chunk c goes round until its owner is next.
  Rule forward = draft.trigger("gather", rule.box);
  forward.count = (N - 1) * S;
  forward.let = rule.let;
  forward.let[0] = {"i", s % (N - 1)};
  forward.let[1] = {"q", s / (N - 1)};
  const Expr onward = lt(i, N - 2);
  forward.waits = {wait(got).index(tile).per_lane(), wait(open).when(onward)};
  forward.sources = {piece(sums, box).when(onward)};
  forward.targets = {piece(sums, box).of(next).when(onward)};
  forward.signals = {signal(next, got).index(tile).per_lane().when(onward)};
  draft.add(forward);
  if (narrow) take_sums(draft, {sums, y, got}, rule, box, u);

  credit_previous(draft, ring);
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
  rule.waits = {wait(parts.credit).index(c).lag(1).when(foreign),
                wait(parts.full).index(j * slot + u).per_lane().each(N - 1).when(own)};
  rule.sources = {piece(parts.inbox, slot_part(j)).each(N - 1).when(own)};
  rule.targets = {piece(parts.inbox, slot_part(i)).of(c).when(foreign)};
  rule.signals = {signal(c, parts.full).index(i * slot + u).per_lane().when(foreign), signal(r, parts.used).when(own)};
  rule.finish = draft.producer.has_epilogue() ? own : Expr(0);
  return rule;
}

Plan two_shot_all_reduce(const Producer& p, const Space& space, int slices) {
  Draft draft = reduce_draft("all_reduce", p, space, Route::two_shot);
  draft.param("S", slices);
  const Direct parts = direct_parts(draft, space);
  const int y = draft.output(m, n);
  const bool narrow = sums_format(space) != Dtype::f32;
  const int open = draft.open_counter(N);
  const int got = narrow ? draft.counter("got", N * slot, 1) : draft.counter("got", N, chunk_tiles(i));
  draft.open({signal(other(j), open).index(r).each(N - 1)});

  Rule rule = two_shot_step(draft, parts, slices);
  const Expr own = eq(i, N - 1);
  rule.waits.push_back(wait(open).index(other(j)).each(N - 1).when(own));
  if (narrow) {
    const int sums = draft.inbox(N, sums_format(space), "sums");
    rule.finish = 0;
    // Its own first: rounded there, then copied.
    rule.targets.push_back(piece(sums, slot_part(c)).of((r + j) % N).each(N).when(own));
    rule.signals.push_back(signal((r + j) % N, got).index(c * slot + u).per_lane().each(N).when(own));
    draft.add(rule);
    for (Let& let : rule.let)
      if (let.name == "q") let.value = d;
    take_sums(draft, {sums, y, got}, rule, slot_part(c), u);
  } else {
    // Its own first: the residual is indexed as that.
    rule.targets.push_back(piece(y, rule.box).of((r + j) % N).each(N).when(own));
    rule.signals.push_back(signal(other(j), got).index(r).each(N - 1).when(own));
    draft.add(rule);
    Rule arrive = draft.trigger("arrive");
    arrive.waits = {wait(got).index(other(j)).reaches(chunk_tiles(other(j))).each(N - 1)};
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
  const int credit = draft.credit_counter(N);
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
  rule.waits = {wait(credit).index(other(j)).lag(1).each(N - 1)};
  rule.targets = {piece(inbox, part_of(r)).of((r + j) % N).each(N)};
  rule.signals = {signal((r + j) % N, full).index(place(r) * slot).per_lane().each(N)};
  draft.add(rule);

  Rule sum = draft.trigger("sum", rows(a, b));
  sum.count = N;
  sum.let = chunk;
  const Expr maker = (c + 1 + j) % N;
  sum.waits = {wait(full).index(place(maker) * slot).per_lane().each(N)};
  sum.sources = {piece(inbox, part_of(maker)).each(N)};
  sum.targets = {piece(y, rows(a, b))};
  sum.signals = {signal(r, used)};
  sum.finish = p.has_epilogue();
  draft.add(sum);
  draft.credit(wait(used).reaches(tiles), {signal(other(j), credit).index(r).each(N - 1)});
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
    rule.targets.push_back(piece(y, {{lo - a, x}, {hi - a, z}}).when(eq(i, N - 1)));
    draft.add(rule);
    credit_previous(draft, ring);
    draft.plan.owed = {owed_sum(draft, y, 1, r, 0, mine)};
    return draft.plan;
  }
  if (route != Route::direct) bad_input("reduce_scatter has no route {}; use auto, ring or direct", to_string(route));
  const Direct parts = direct_parts(draft, space);
  const int y = draft.output(mine, n);
  Rule rule = direct_step(draft, parts);
  rule.targets.push_back(piece(y, rows(0, b - a)).when(eq(s, N - 1)));
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
