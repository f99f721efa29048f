// Gathers and broadcasts on two levels: what a rank makes goes to its mates through shared memory and once to every
// other host, where the rank that it crosses to, its gate, copies it to its own mates as it comes.
#include "weft/base/error.h"
#include "weft/collective/gather_gemm.h"
#include "weft/collective/two_level.h"

namespace weft {
namespace {

using namespace var;  // NOLINT: the vocabulary of rules

Draft gather_draft(const std::string& name, const Producer& producer, const Space& space, int ranks_per_host) {
  check_same_width(producer);
  check_hosts(space.num_ranks(), ranks_per_host);
  Draft draft(name, Route::two_level, producer, space.num_ranks());
  draft.param("L", ranks_per_host);
  draft.param("H", space.num_ranks() / ranks_per_host);
  draft.param("slot", ceil_div(producer.m, producer.tile[0]) * ceil_div(producer.n, producer.tile[1]));
  return draft;
}

// Strips of the rows of rank `from`, to this rank's mates.
Rule to_mates(const GatherGemm& gather, const char* name, const Expr& from) {
  Rule rule = gather.move(name, from);
  rule.waits = {wait(gather.credit).index(of_mate(j)).lag(1).each(L - 1)};
  rule.targets = {piece(gather.a, rows_of_a(from)).of(mate(j)).each(L - 1)};
  rule.signals = {signal(mate(j), gather.full).index(from * strips).per_lane().each(L - 1)};
  return rule;
}

void add_moves(GatherGemm& gather) {
  Rule send = to_mates(gather, "send", r);
  send.sources = {piece(gather.x, rows_of_x())};
  send.waits.push_back(wait(gather.credit).index(of_gate(j)).lag(1).each(H - 1));
  // What crosses goes first.
  send.targets.insert(send.targets.begin(), piece(gather.a, rows_of_a(r)).of(gate(j)).each(H - 1));
  send.signals.insert(send.signals.begin(), signal(gate(j), gather.full).index(r * strips).per_lane().each(H - 1));
  gather.draft.add(send);
  Rule forward = to_mates(gather, "spread", c);
  forward.count = H - 1;
  forward.let = {{"g", (host + 1 + s) % H}, {"c", g * L + place}};
  forward.sources = {piece(gather.a, rows_of_a(c))};
  forward.waits.push_back(wait(gather.full).index(c * strips).per_lane());
  forward.signals.push_back(signal(r, gather.used));
  gather.draft.add(forward);
}

}  // namespace

Plan build_two_level_all_gather(const Producer& producer, const Space& space, int ranks_per_host) {
  if (producer.residual)
    bad_input("all_gather has no residual: the rows that a rank makes are a part of those it keeps");
  Draft draft = gather_draft(fmt::format("{} all_gather", to_string(producer.kind)), producer, space, ranks_per_host);
  const int y = draft.output(N * m, n);
  Spread spread(
      draft, [](const Expr&) { return slot; }, draft.plan.buffer("y"));
  Rule rule = draft.step("make", rows(0, m));
  rule.finish = producer.has_epilogue();
  spread.store(&rule, stacked(r), 0);
  draft.add(rule);
  Rule forward = draft.trigger("spread", rows(0, m));
  forward.count = H - 1;
  forward.let = {{"g", (host + 1 + s) % H}, {"c", g * L + place}};
  spread.forward(forward, stacked(c), 0);
  spread.arrive();
  draft.plan.owed = {owed_copy(y, N, s, stacked(s), producer.has_epilogue())};
  return draft.plan;
}

// The ranks at the root's place pass it on from host to host, and each of them stores it to its mates.
Plan build_two_level_broadcast(const Producer& producer, const Space& space, int ranks_per_host) {
  const int num_ranks = space.num_ranks();
  if (space.options.root < 0 || space.options.root >= num_ranks)
    bad_input("broadcast has root {}, but ranks are 0 to {}", space.options.root, num_ranks - 1);
  Draft draft = gather_draft(fmt::format("{} broadcast", to_string(producer.kind)), producer, space, ranks_per_host);
  draft.param("root", space.options.root);
  const Expr root = Expr::name("root"), gates = eq(place, root % L), turn = (host - root / L) % H;
  const Expr onward = lt(turn, H - 1);
  const BoxRule whole = rows(0, m);
  const int y = draft.output(m, n);
  // Opened by mates at their place, by the next host's gate at L.
  const int open = draft.open_counter(L + 1);
  const int came = draft.counter("came", slot, 1), got = draft.counter("got", 1, slot);
  draft.open({signal((r - L) % N, open).index(L)}, gates * ne(r, root));
  draft.open({signal(host * L + root % L, open).index(place)}, ne(place, root % L));

  const auto pass_on = [&](Rule rule) {
    rule.waits.push_back(wait(open).index(L).when(onward));
    rule.waits.push_back(wait(open).index(of_mate(j)).each(L - 1));
    rule.targets.push_back(piece(y, whole).of((r + L) % N).when(onward));
    rule.targets.push_back(piece(y, whole).of(mate(j)).each(L - 1));
    rule.signals = {signal((r + L) % N, came).per_lane().when(onward), signal(mate(j), got).each(L - 1)};
    draft.add(rule);
  };
  Rule make = draft.step("make", whole);
  make.when = eq(r, root);
  make.targets = {piece(y, whole)};
  make.finish = producer.has_epilogue();
  pass_on(make);
  Rule forward = draft.trigger("spread", whole);
  forward.when = gates * ne(r, root);
  forward.waits = {wait(came).per_lane()};
  forward.sources = {piece(y, whole)};
  pass_on(forward);
  Rule arrive = draft.trigger("arrive");
  arrive.when = ne(place, root % L);
  arrive.waits = {wait(got).reaches(slot)};
  draft.add(arrive);
  draft.plan.owed = {owed_copy(y, 1, root, whole, producer.has_epilogue())};
  return draft.plan;
}

Plan build_two_level_gather_gemm(const Producer& producer, const Space& space, int ranks_per_host) {
  if (producer.kind != ProducerKind::gemm)
    bad_input("rows are gathered for a gemm, not for {}; use gemm", to_string(producer.kind));
  GatherGemm gather(gather_draft("all_gather gemm", producer, space, ranks_per_host));
  const Expr reads = (N - 1) * strips * cols + (H - 1) * strips;
  gather.add_counters(reads, L + H);
  add_moves(gather);
  gather.add_gemm((host + s / L) % H * L + (r + s) % L);  // its own rows, its mates', then what crosses, host by host
  gather.draft.credit(wait(gather.used).reaches(reads), {signal(gate(j), gather.credit).index(L + host).each(H - 1),
                                                         signal(mate(j), gather.credit).index(place).each(L - 1)});
  return gather.finished(N - 1, other(s));
}

}  // namespace weft
