// Reductions on two levels. Chunk c belongs to place p of host g. On every host the rank at place p folds the chunk:
// its mates store their tiles into slots of its memory as they make them, and it adds its own tile to them. On the
// other hosts that sum is the host's partial, and its tiles cross to the owner as they are made; the owner adds the
// partials and its own host's tiles. So of each element one partial per host crosses, and no pass over memory is made
// only to add.
//
//   order   the partials of the hosts g + 1, g + 2, ..., each folded over the places p + 1, p + 2, ..., p; then the
//           tiles of host g, one by one, in the same order of places. Flat routes fold rank by rank: bits differ.
//   slices  reduce_scatter makes what crosses first, slice by slice, so that the link is in use from the first slice
//           on, and what its own host needs last. all_reduce makes slice d of the other hosts' chunks, then slice
//           d - 1 of its own host's: the sums of a slice are spread while the next are made.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/collective/reduce.h"
#include "weft/collective/two_level.h"

namespace weft {
namespace {

using namespace var;  // NOLINT: the vocabulary of rules

const Expr lag = Expr::name("lag");  // turns between a slice that crosses and the same slice of this host's own chunks

struct Fold {
  int mates, inbox;  // H * (L - 1) slots of this host's tiles; H - 1 of partials from other hosts
  int near, full;    // tiles of them that are there
  int used;          // by the chunk's host
  int credit;
};

Draft reduce_draft(const char* name, const Producer& producer, const Space& space, int ranks_per_host) {
  if (!producer.n_of.empty()) bad_input("outputs of different widths cannot be summed; give every rank the same n");
  const int num_ranks = space.num_ranks();
  check_hosts(num_ranks, ranks_per_host);
  Draft draft(fmt::format("{} {}", to_string(producer.kind), name), Route::two_level, producer, num_ranks);
  const std::int64_t most_rows = ceil_div(producer.m, num_ranks);
  draft.param("L", ranks_per_host);
  draft.param("H", num_ranks / ranks_per_host);
  draft.param("cap", most_rows);
  draft.param("slot", ceil_div(most_rows, producer.tile[0]) * ceil_div(producer.n, producer.tile[1]));
  return draft;
}

Fold fold_parts(Draft& draft, const Space& space) {
  Fold fold;
  fold.mates = draft.inbox(H * (L - 1), Dtype::f32, "mates");  // a narrow wire is for what crosses
  fold.inbox = draft.inbox(H - 1, space.options.wire);
  fold.near = draft.counter("near", H * (L - 1) * slot, 1);
  fold.full = draft.counter("full", (H - 1) * slot, 1);
  fold.used = draft.counter("used", H, chunk_tiles(i * L + place));
  fold.credit = draft.credit_counter(L + H);
  return fold;
}

// A turn goes over all hosts, this one last, and over a host's places, this one last: the mates' tiles of the chunk
// that this rank folds are made while it makes theirs.
Rule fold_step(const Draft& draft, const Fold& fold, int slices) {
  const auto slot_at = [](const Expr& at) { return BoxRule{{at * cap + lo - a, x}, {at * cap + hi - a, z}}; };
  const Expr v = Expr::name("v"), w = Expr::name("w"), t = i / L;  // v: slots of the chunk's host begin there
  const Expr foreign = lt(w, L - 1), folds = eq(w, L - 1), sends = folds * ne(c, r), own = eq(c, r);
  Rule rule = draft.step("fold", {{lo, x}, {hi, z}});
  rule.count = N * (S + lag);
  rule.let = {{"i", s % N},
              {"w", i % L},
              {"g", (host - 1 - t) % H},
              {"c", g * L + (r - 1 - i) % L},
              {"d", s / N - lag * eq(t, H - 1)},
              {"q", d % S},
              {"v", g * (L - 1)},
              {"a", cut(m, N, c)},
              {"b", cut(m, N, c + 1)}};
  rule.when = lt(d, S) * (1 - lt(d, 0));
  for (Let& let : slice_lets(columns_first(draft.producer, slices))) rule.let.push_back(std::move(let));
  const Expr mate_of_chunk = host * L + c % L;
  rule.waits = {wait(fold.credit).index(c % L).lag(1).when(foreign), wait(fold.credit).index(L + g).lag(1).when(sends),
                wait(fold.full).index(j * slot + u).per_lane().each(H - 1).when(own),
                wait(fold.near).index((v + j) * slot + u).per_lane().each(L - 1).when(folds)};
  rule.sources = {piece(fold.inbox, slot_at(j)).each(H - 1).when(own),
                  piece(fold.mates, slot_at(v + j)).each(L - 1).when(folds)};
  rule.targets = {piece(fold.mates, slot_at(v + w)).of(mate_of_chunk).when(foreign),
                  piece(fold.inbox, slot_at(t)).of(c).when(sends)};
  rule.signals = {signal(mate_of_chunk, fold.near).index((v + w) * slot + u).per_lane().when(foreign),
                  signal(c, fold.full).index(t * slot + u).per_lane().when(sends),
                  signal(r, fold.used).index(g).when(folds)};
  rule.finish = draft.producer.has_epilogue() ? own : Expr(0);  // all_reduce by narrow sums: later
  return rule;
}

void give_credit(Draft& draft, const Fold& fold) {
  draft.credit(wait(fold.used).index(j).reaches(chunk_tiles(j * L + place)).each(H),
               {signal(mate(j), fold.credit).index(place).each(L - 1),
                signal(gate(j), fold.credit).index(L + host).each(H - 1)});
}

// In the order of hosts.
Owed by_hosts(Owed owed, const Expr& chunk) {
  owed.first = (chunk / L + 1) % H * L + (chunk + 1) % L;
  owed.ranks_per_host = L;
  return owed;
}

// As many as asked for, or up to 8 where ranks are few: each is a step for every chunk. A slice is at least one row or
// one column of tiles.
int slices_of(const Producer& producer, const Space& space) {
  const int num_ranks = space.num_ranks();
  const std::int64_t tile_rows = ceil_div(ceil_div(producer.m, num_ranks), producer.tile[0]);
  const std::int64_t most = std::max(tile_rows, ceil_div(producer.n, producer.tile[1]));
  const int wanted = space.options.slices > 0 ? space.options.slices : std::clamp(128 / num_ranks, 1, 8);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
}

// Narrow sums become the output: those of this place's chunks as they come, the mates' when a chunk is there.
void take_sums(Draft& draft, const Spread& spread, Rule like, int sums, const BoxRule& slot_box) {
  const int y = draft.plan.buffer("y");
  Rule take = draft.trigger("take", like.box);
  take.count = H * S;
  take.let = like.let;
  take.let[0] = {"g", s % H};
  take.let[1] = {"q", s / H};
  take.waits = {spread.came(g, u)};
  take.sources = {piece(sums, slot_box)};
  take.targets = {piece(y, like.box)};
  take.finish = draft.producer.has_epilogue();
  draft.add(take);
  Rule mates = draft.trigger("take_mates", rows(a, b));
  mates.count = N - H;
  mates.let = {
      {"p", (r + 1 + s % (L - 1)) % L}, {"c", s / (L - 1) * L + p}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + 1)}};
  mates.waits = {spread.all_of(c)};
  mates.sources = {piece(sums, rows(c * cap, c * cap + b - a))};
  mates.targets = {piece(y, rows(a, b))};
  mates.finish = take.finish;
  draft.add(mates);
}

}  // namespace

Plan build_two_level_reduce_scatter(const Producer& producer, const Space& space, int ranks_per_host) {
  Draft draft = reduce_draft("reduce_scatter", producer, space, ranks_per_host);
  const int slices = slices_of(producer, space);
  draft.param("S", slices);
  draft.param("lag", slices);
  const Fold fold = fold_parts(draft, space);
  const int y = draft.output(chunk_rows(r), n);
  Rule rule = fold_step(draft, fold, slices);
  rule.targets.push_back(piece(y, {{lo - a, x}, {hi - a, z}}).when(eq(c, r)));
  draft.add(rule);
  give_credit(draft, fold);
  draft.plan.owed = {by_hosts(owed_sum(draft, piece(y, rows(0, chunk_rows(r))), r), r)};
  return draft.plan;
}

Plan build_two_level_all_reduce(const Producer& producer, const Space& space, int ranks_per_host) {
  Draft draft = reduce_draft("all_reduce", producer, space, ranks_per_host);
  const int slices = slices_of(producer, space);
  draft.param("S", slices);
  draft.param("lag", 1);
  const Fold fold = fold_parts(draft, space);
  const int y = draft.output(m, n);
  const bool narrow = sums_format(space) != Dtype::f32;
  const int sums = narrow ? draft.inbox(N, sums_format(space), "sums") : y;
  Spread spread(draft, chunk_tiles, sums);
  const BoxRule whole{{lo, x}, {hi, z}}, slot_box{{c * cap + lo - a, x}, {c * cap + hi - a, z}};
  const BoxRule& spread_box = narrow ? slot_box : whole;
  Rule rule = fold_step(draft, fold, slices);
  if (narrow) rule.finish = 0;
  spread.store(&rule, spread_box, u, eq(c, r), narrow);
  draft.add(rule);

  Rule forward = draft.trigger("spread", whole);
  forward.count = (H - 1) * S;
  forward.let = {{"g", (host + 1 + s % (H - 1)) % H},
                 {"q", s / (H - 1)},
                 {"c", g * L + place},
                 {"a", cut(m, N, c)},
                 {"b", cut(m, N, c + 1)}};
  for (Let& let : slice_lets(columns_first(producer, slices))) forward.let.push_back(std::move(let));
  spread.forward(forward, spread_box, u);
  spread.arrive();
  if (narrow) take_sums(draft, spread, forward, sums, slot_box);
  give_credit(draft, fold);
  draft.plan.owed = {by_hosts(owed_sums(draft, y), s)};
  return draft.plan;
}

}  // namespace weft
