// Sums on every rank: a reduction (reduce.cc), and then the owner's sums go to everybody, slice by slice, so that the
// sums of one slice travel while the next is made. one_shot has no owners: every rank adds everything.
//
// Where an all_reduce's sums go to everybody in a narrow format, they go into "sums", the owner's copy too, and every
// rank takes its output from there, epilogue and all. A contribution is rounded once by direct, one_shot and two_shot,
// a partial sum at every hop of a ring; then the sum once, however far it goes.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/collective/reduce.h"

namespace weft {
namespace {

using namespace var;  // NOLINT: the vocabulary of rules

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
  const Inbox ring = ring_inbox(draft, space, slices);
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
  draft.plan.owed = {owed_sums(draft, y)};
  return draft.plan;
}

// What the owner adds to a step that ends with the sums of its chunk: it stores them to everybody, itself first, since
// the residual is indexed as that. Others wait until all of a chunk has come.
void store_to_everybody(Draft& draft, Rule* rule, const Expr& own, int y, int open) {
  const int got = draft.counter("got", N, chunk_tiles(i));
  rule->waits.push_back(wait(open).index(other(j)).each(N - 1).when(own));
  rule->targets.push_back(piece(y, rule->box).of((r + j) % N).each(N).when(own));
  rule->signals.push_back(signal(other(j), got).index(r).each(N - 1).when(own));
  draft.add(*rule);
  Rule arrive = draft.trigger("arrive");
  arrive.waits = {wait(got).index(other(j)).reaches(chunk_tiles(other(j))).each(N - 1)};
  draft.add(arrive);
}

// A tile is added to one other, as by a ring, but its sum goes to everybody in one hop: N - 1 chunks and one go to the
// next rank, instead of 2 N - 2. In slices of columns, which share rows of x and few columns of w.
Plan ring_shot_all_reduce(const Producer& p, const Space& space, int slices) {
  if (sums_format(space) != Dtype::f32)
    bad_input("route ring_shot sends sums as they are; leave wire_sums out, or use ring or two_shot");
  Draft draft = reduce_draft("all_reduce", p, space, Route::ring_shot);
  const Inbox ring = ring_inbox(draft, space, slices);
  const int y = draft.output(m, n);
  const int open = draft.open_counter(N);
  draft.open({signal(other(j), open).index(r).each(N - 1)});
  Rule rule = ring_step(draft, ring, columns_first(p, slices));
  store_to_everybody(draft, &rule, eq(i, N - 1), y, open);
  credit_previous(draft, ring);
  draft.plan.owed = {owed_sums(draft, y)};
  return draft.plan;
}

// Turn d makes slice d of the others' chunks and then slice d - 1 of this rank's own: what the others send for a slice
// has a whole turn to arrive, so a slow link holds no thread up that has something else to make.
Rule two_shot_step(const Draft& draft, const Inbox& inbox, int slices) {
  const BoxRule whole{{lo, x}, {hi, z}};
  Rule rule = draft.step("two_shot", whole);
  const Expr own = eq(i, N - 1), foreign = lt(i, N - 1);
  rule.count = N * (S + 1);
  rule.when = own * gt(d, 0) + foreign * lt(d, S);
  rule.let = {{"i", s % N},           {"d", s / N},        {"q", (d - own) % S},
              {"c", (r - 1 - i) % N}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  for (Let& let : slice_lets(columns_first(draft.producer, slices))) rule.let.push_back(std::move(let));
  rule.waits = {wait(inbox.credit).index(c).lag(1).when(foreign),
                wait(inbox.full).index(j * slot + u).per_lane().each(N - 1).when(own)};
  rule.sources = {piece(inbox.buffer, slot_part(j)).each(N - 1).when(own)};
  rule.targets = {piece(inbox.buffer, slot_part(i)).of(c).when(foreign)};
  rule.signals = {signal(c, inbox.full).index(i * slot + u).per_lane().when(foreign), signal(r, inbox.used).when(own)};
  rule.finish = draft.producer.has_epilogue() ? own : Expr(0);
  return rule;
}

Plan two_shot_all_reduce(const Producer& p, const Space& space, int slices) {
  Draft draft = reduce_draft("all_reduce", p, space, Route::two_shot);
  draft.param("S", slices);
  const Inbox inbox = direct_inbox(draft, space);
  const int y = draft.output(m, n);
  const bool narrow = sums_format(space) != Dtype::f32;
  const int open = draft.open_counter(N);
  draft.open({signal(other(j), open).index(r).each(N - 1)});

  Rule rule = two_shot_step(draft, inbox, slices);
  const Expr own = eq(i, N - 1);
  if (narrow) {
    const int got = draft.counter("got", N * slot, 1);
    rule.waits.push_back(wait(open).index(other(j)).each(N - 1).when(own));
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
    store_to_everybody(draft, &rule, own, y, open);
  }
  credit_everybody(draft, inbox);
  draft.plan.owed = {owed_sums(draft, y)};
  return draft.plan;
}

Plan one_shot_all_reduce(const Producer& p, const Space& space) {
  if (space.num_ranks() > kMaxOneShotRanks)
    bad_input("route one_shot is for at most {} ranks, not {}; use two_shot or ring", kMaxOneShotRanks,
              space.num_ranks());
  const bool whole = p.tile[0] >= p.m;
  Draft draft = reduce_draft("all_reduce", p, space, Route::one_shot, whole ? p.m : 0);
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
  draft.plan.owed = {owed_sums(draft, y)};
  return draft.plan;
}

}  // namespace

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
    case Route::ring_shot:
      return ring_shot_all_reduce(p, space, slices(8, std::max(tile_rows, tile_cols)));
    case Route::two_shot:
      return two_shot_all_reduce(p, space, slices(std::clamp(128 / n, 1, 8), std::max(tile_rows, tile_cols)));
    case Route::one_shot:
      return one_shot_all_reduce(p, space);
    case Route::halving_doubling:
      if (space.options.slices > 1)
        bad_input("route halving_doubling is not made in slices; leave slices at 0, or use ring or two_shot");
      return build_halving_doubling_all_reduce(p, space);
    case Route::torus:
      if (space.options.slices > 1)
        bad_input("route torus is not made in slices; leave slices at 0, or use ring or two_shot");
      return build_torus_all_reduce(p, space);
    default:
      bad_input("all_reduce has no route {}; use auto, ring, one_shot, two_shot, ring_shot, halving_doubling or torus",
                to_string(route));
  }
}

}  // namespace weft
