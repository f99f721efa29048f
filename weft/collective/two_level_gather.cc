// Gathers and broadcasts on two levels: what a rank makes goes to its mates through shared memory and once to every
// other host, where the rank that it crosses to, its gate, copies it to its own mates as it comes.
#include "weft/base/error.h"
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

const Expr strips = Expr::name("strips");  // of a rank's rows, each with a counter
const BoxRule whole_x{{0, 0}, {m, k}};
BoxRule part_of_a(const Expr& rank) { return {{rank * m, 0}, {rank * m + m, k}}; }

// A gather that feeds a gemm: m rows of x on every rank become N * m rows of a; chunk c of y needs the rows of rank c.
struct GatherGemm {
  Draft draft;
  int x, a, y, full, used, credit;
  Expr reads = (N - 1) * strips * cols + (H - 1) * strips;  // of a, by lanes

  explicit GatherGemm(Draft begun) : draft(std::move(begun)) {
    draft.param("k", draft.producer.k);
    draft.param("strips", ceil_div(draft.producer.m, draft.producer.tile[0]));
    const GatherBuffers buffers = gather_buffers(&draft);
    x = buffers.x, a = buffers.a, y = buffers.y;
    full = draft.counter("full", N * strips, 1), used = draft.counter("used", 1, reads);
    credit = draft.credit_counter(L + H);
  }

  // Strips of the rows of rank `from`, to this rank's mates.
  Rule move(const char* name, const Expr& from) {
    Rule rule = draft.trigger(name, whole_x);
    rule.tile = {draft.producer.tile[0], 0};
    rule.limit = Limit::peer;
    rule.limit_peer = from;
    rule.waits = {wait(credit).index(of_mate(j)).lag(1).each(L - 1)};
    rule.targets = {piece(a, part_of_a(from)).of(mate(j)).each(L - 1)};
    rule.signals = {signal(mate(j), full).index(from * strips).per_lane().each(L - 1)};
    return rule;
  }

  void add_moves() {
    Rule send = move("send", r);
    send.sources = {piece(x, whole_x)};
    send.waits.push_back(wait(credit).index(of_gate(j)).lag(1).each(H - 1));
    // What crosses goes first.
    send.targets.insert(send.targets.begin(), piece(a, part_of_a(r)).of(gate(j)).each(H - 1));
    send.signals.insert(send.signals.begin(), signal(gate(j), full).index(r * strips).per_lane().each(H - 1));
    draft.add(send);
    Rule forward = move("spread", c);
    forward.count = H - 1;
    forward.let = {{"g", (host + 1 + s) % H}, {"c", g * L + place}};
    forward.sources = {piece(a, part_of_a(c))};
    forward.waits.push_back(wait(full).index(c * strips).per_lane());
    forward.signals.push_back(signal(r, used));
    draft.add(forward);
  }

  // Its own rows first, then its mates', then those that cross, one host after another.
  void add_gemm() {
    Rule rule = draft.step("gemm", stacked(c));
    rule.limit = Limit::peer;
    rule.limit_peer = c;
    rule.count = N;
    rule.let = {{"c", (host + s / L) % H * L + (r + s) % L}};
    rule.waits = {wait(full).index(c * strips).per_lanes(cols).when(gt(s, 0))};
    rule.reads = {piece(x, whole_x).when(eq(s, 0)), piece(a, part_of_a(c)).when(gt(s, 0))};
    rule.targets = {piece(y, stacked(c))};
    rule.signals = {signal(r, used).when(gt(s, 0))};
    rule.finish = draft.producer.has_epilogue();
    draft.add(rule);
  }

  Plan finished() {
    draft.credit(wait(used).reaches(reads), {signal(gate(j), credit).index(L + host).each(H - 1),
                                             signal(mate(j), credit).index(place).each(L - 1)});
    Owed rows_owed = owed_copy(a, N - 1, other(s), part_of_a(other(s)), false);
    rows_owed.leaf = -1 - x;
    draft.plan.owed = {owed_copy(y, 1, r, rows(0, N * m), draft.producer.has_epilogue()), rows_owed};
    return draft.plan;
  }
};

}  // namespace

Plan build_two_level_all_gather(const Producer& producer, const Space& space, int ranks_per_host) {
  if (producer.residual)
    bad_input("all_gather has no residual: the rows that a rank makes are a part of those it keeps");
  Draft draft =
      gather_draft(fmt::format("{} all_gather", to_string(producer.kind)), producer, space, ranks_per_host);
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
  Draft draft =
      gather_draft(fmt::format("{} broadcast", to_string(producer.kind)), producer, space, ranks_per_host);
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
  gather.add_moves();
  gather.add_gemm();
  return gather.finished();
}

}  // namespace weft
