#include "weft/collective/gather_gemm.h"

#include "weft/base/error.h"

namespace weft {

using namespace var;  // NOLINT: the vocabulary of rules

GatherGemm::GatherGemm(Draft begun) : draft(std::move(begun)) {
  draft.param("k", draft.producer.k);
  draft.param("strips", ceil_div(draft.producer.m, draft.producer.tile[0]));
  Buffer buffer;
  buffer.dtype = draft.producer.x();
  buffer.name = "x", buffer.role = Role::input, buffer.shape = {m, k};
  x = draft.buffer(buffer);
  buffer.name = "a", buffer.role = Role::internal, buffer.shape = {N * m, k};
  a = draft.buffer(buffer);
  y = draft.output(N * m, n);
}

void GatherGemm::add_counters(Expr reads, Expr credits) {
  full = draft.counter("full", N * strips, 1);
  used = draft.counter("used", 1, std::move(reads));
  credit = draft.credit_counter(std::move(credits));
}

Rule GatherGemm::move(std::string name, const Expr& from) const {
  Rule rule = draft.trigger(std::move(name), rows_of_x());
  rule.tile = {draft.producer.tile[0], 0};
  rule.limit = Limit::peer;
  rule.limit_peer = from;
  return rule;
}

void GatherGemm::add_gemm(const Expr& rank) {
  const Expr own = eq(s, 0), foreign = gt(s, 0);
  Rule rule = draft.step("gemm", stacked(c));
  rule.limit = Limit::peer;
  rule.limit_peer = c;
  rule.count = N;
  rule.let = {{"c", rank}};
  rule.waits = {wait(full).index(c * strips).per_lanes(cols).when(foreign)};
  rule.reads = {piece(x, rows_of_x()).when(own), piece(a, rows_of_a(c)).when(foreign)};
  rule.targets = {piece(y, stacked(c))};
  rule.signals = {signal(r, used).when(foreign)};
  rule.finish = draft.producer.has_epilogue();
  draft.add(rule);
}

Plan GatherGemm::finished(Expr count, const Expr& from) {
  Owed rows_owed = owed_copy(a, std::move(count), from, rows_of_a(from), false);
  rows_owed.leaf = -1 - x;
  draft.plan.owed = {owed_copy(y, 1, r, rows(0, N * m), draft.producer.has_epilogue()), rows_owed};
  return draft.plan;
}

namespace {

// A rank's own rows, to the first `receivers` of the other ranks, the j-th of which raises credit `from` here.
void add_send(GatherGemm& gather, const Expr& receivers, const Expr& from) {
  Rule send = gather.move("send", r);
  send.sources = {piece(gather.x, rows_of_x())};
  send.waits = {wait(gather.credit).index(from).lag(1).each(receivers)};
  send.targets = {piece(gather.a, rows_of_a(r)).of(other(j)).each(receivers)};
  send.signals = {signal(other(j), gather.full).index(r * strips).per_lane().each(receivers)};
  gather.draft.add(send);
}

// Every rank stores its rows to everybody.
Plan direct_gather_gemm(GatherGemm gather) {
  const Expr reads = (N - 1) * strips * cols;
  gather.add_counters(reads, N);
  add_send(gather, N - 1, other(j));
  gather.add_gemm((r - s) % N);
  gather.draft.credit(wait(gather.used).reaches(reads), {signal(other(j), gather.credit).index(r).each(N - 1)});
  return gather.finished(N - 1, other(s));
}

// Rows go round until their owner is next; the gemm takes them in the order in which they come.
Plan ring_gather_gemm(GatherGemm gather) {
  const Expr reads = (N - 1) * strips * cols + (N - 2) * strips;
  gather.add_counters(reads, 1);
  add_send(gather, 1, 0);
  Rule forward = gather.move("gather", c);
  forward.count = N - 2;
  forward.let = {{"c", (r - 1 - s) % N}};
  forward.waits = {wait(gather.full).index(c * strips).per_lane(), wait(gather.credit).lag(1)};
  forward.sources = {piece(gather.a, rows_of_a(c))};
  forward.targets = {piece(gather.a, rows_of_a(c)).of(next)};
  forward.signals = {signal(next, gather.full).index(c * strips).per_lane(), signal(r, gather.used)};
  gather.draft.add(forward);
  gather.add_gemm((r - s) % N);
  gather.draft.credit(wait(gather.used).reaches(reads), {signal(previous, gather.credit)});
  return gather.finished(N - 1, other(s));
}

}  // namespace

Plan build_gather_gemm(const Producer& p, const Space& space, Route route) {
  if (p.kind != ProducerKind::gemm) bad_input("rows are gathered for a gemm, not for {}; use gemm", to_string(p.kind));
  if (route != Route::ring && route != Route::direct && route != Route::staged)
    bad_input("all_gather into gemm has no route {}; use auto, ring, direct or staged", to_string(route));
  if (route == Route::staged && space.num_ranks() > kMaxStagedRanks)
    bad_input("route staged is for at most {} ranks, not {}; use auto, ring or direct", kMaxStagedRanks,
              space.num_ranks());
  if (route == Route::staged) return build_gather_first(p, space);
  GatherGemm gather(Draft("all_gather gemm", route, p, space.num_ranks()));
  return route == Route::ring ? ring_gather_gemm(std::move(gather)) : direct_gather_gemm(std::move(gather));
}

}  // namespace weft
