// An all_reduce in 2 log2 N rounds, for N a power of two. In round t of the first half ranks that are N / 2^(t + 1)
// apart are partners: each makes the tiles of its partner's half of what is left, adds what earlier rounds brought for
// them, and stores the sums with its partner, so that every rank is left with its own chunk. The second half is the
// first turned round: partners bring each other the sums that they have, 1, 2, 4, ... chunks at a time.
//
//   bytes   those of a ring, 2 (N - 1) / N of the output, in 2 log2 N messages of a tile's latency each
//   order   a tree: what a round brings is a sum already. So the plan says sum = any: each contribution once, in an
//           order of its own, the same in every run
//   tiles   end where chunks do, so chunks are of equal rows. Rounds share tiles, so the proof goes tile by tile
#include "weft/base/error.h"
#include "weft/collective/reduce.h"

namespace weft {
namespace {

using namespace var;  // NOLINT: the vocabulary of rules

const Expr t = Expr::name("t"), K = Expr::name("K");

Expr half(const Expr& round) { return Expr::table("half", round); }    // ranks between partners; chunks they exchange
Expr first(const Expr& round) { return Expr::table("first", round); }  // chunk of the inbox where the round's begin
Expr partner(const Expr& distance) { return r + distance * (1 - 2 * (r / distance % 2)); }
Expr block(const Expr& rank, const Expr& chunks) { return rank / chunks * chunks; }  // where those around a rank begin

void check_halves(const Producer& p, const Space& space) {
  const int n = space.num_ranks();
  if (n < 2 || (n & (n - 1)) != 0)
    bad_input("route halving_doubling is for 2, 4, 8, ... ranks, not {}; use ring or two_shot", n);
  check_equal_chunks(p, space, Route::halving_doubling);
}

void add_rounds(Draft& draft, int num_ranks) {
  Table halves, firsts;
  int rounds = 0;
  for (; num_ranks >> rounds > 1; ++rounds) {
    halves.push_back(num_ranks >> (rounds + 1));
    firsts.push_back(num_ranks - (num_ranks >> rounds));
  }
  halves.push_back(1);  // in the end a rank makes its own chunk
  firsts.push_back(num_ranks - 1);
  draft.param("K", rounds);
  draft.plan.tables.push_back({"half", halves});
  draft.plan.tables.push_back({"first", firsts});
}

// Chunks c to c + d of every round, as `rule` lets them be.
std::vector<Let> chunk_lets(Expr from) {
  return {{"c", std::move(from)}, {"a", cut(m, N, c)}, {"b", cut(m, N, c + d)}};
}

Rule halving_step(const Draft& draft, const Inbox& inbox, int y, int got) {
  Rule rule = draft.step("halve", rows(a, b));
  const Expr own = eq(s, K), sends = lt(s, K), at = first(j) + c - block(r, half(j));
  rule.count = K + 1;
  rule.let = {{"d", half(s)}, {"q", partner(d)}};
  for (Let& let : chunk_lets(own * r + sends * block(q, d))) rule.let.push_back(std::move(let));
  rule.waits = {wait(inbox.credit).index(s).lag(1).when(sends), wait(inbox.full).index(at * slot).per_lane().each(s)};
  rule.sources = {piece(inbox.buffer, rows(at * cap, at * cap + (b - a))).each(s)};
  rule.targets = {piece(inbox.buffer, rows(first(s) * cap, first(s) * cap + (b - a))).of(q).when(sends),
                  piece(y, rows(a, b)).when(own)};
  rule.signals = {signal(q, inbox.full).index(first(s) * slot).per_lane().when(sends),
                  signal(r, inbox.used).when(gt(s, 0)), signal(r, got).index(c * slot).per_lane().when(own)};
  rule.finish = draft.producer.has_epilogue() ? own : Expr(0);
  return rule;
}

}  // namespace

Plan build_halving_doubling_all_reduce(Producer p, const Space& space) {
  check_halves(p, space);
  p.tile[0] = rows_of_tiles(p.m / space.num_ranks(), p.tile[0]);
  Draft draft = reduce_draft("all_reduce", p, space, Route::halving_doubling);
  draft.plan.sum = Sum::any;
  add_rounds(draft, space.num_ranks());
  Buffer rounds;
  rounds.name = "inbox", rounds.shape = {(N - 1) * cap, n};
  Inbox inbox;
  inbox.buffer = draft.buffer(rounds);
  inbox.full = draft.counter("full", (N - 1) * slot, 1);
  inbox.used = draft.counter("used", 1, N / 2 * slot);
  inbox.credit = draft.credit_counter(K);
  const int y = draft.output(m, n);
  const int open = draft.open_counter(K), got = draft.counter("got", N * slot, 1);
  draft.open({signal(partner(half(j)), open).index(j).each(K)});
  draft.add(halving_step(draft, inbox, y, got));

  Rule doubling = draft.trigger("double", rows(a, b));
  doubling.count = K;
  doubling.let = {{"t", K - 1 - s}, {"d", half(t)}, {"q", partner(d)}};
  for (Let& let : chunk_lets(block(r, d))) doubling.let.push_back(std::move(let));
  doubling.waits = {wait(got).index(c * slot).per_lane(), wait(open).index(t)};
  doubling.sources = {piece(y, rows(a, b))};
  doubling.targets = {piece(y, rows(a, b)).of(q)};
  doubling.signals = {signal(q, got).index(c * slot).per_lane()};
  draft.add(doubling);

  Rule arrive = draft.trigger("arrive", rows(a, b));  // what the last round brings; the others' is sent on
  arrive.let = {{"d", half(0)}, {"q", partner(d)}};
  for (Let& let : chunk_lets(block(q, d))) arrive.let.push_back(std::move(let));
  arrive.waits = {wait(got).index(c * slot).per_lane()};
  draft.add(arrive);
  draft.credit(wait(inbox.used).reaches(N / 2 * slot), {signal(partner(half(j)), inbox.credit).index(j).each(K)});
  draft.plan.owed = {owed_sums(draft, y)};
  return draft.plan;
}

}  // namespace weft
