// A gather before the product, for products so thin that reading their weights is most of the work: every rank's rows
// are brought together in one buffer, and one gemm over all of them reads the weights once, where a gemm for each rank's
// rows reads them N times (ag-gemm, 2 rows a rank, k 256, n 512: 1.57 times gather, then gemm).
#include <algorithm>

#include "weft/collective/draft.h"

namespace weft {

using namespace var;  // NOLINT: the vocabulary of rules

namespace {

constexpr std::int64_t kTileRows = 64;  // of a gemm that may choose

}  // namespace

Plan build_gather_first(const Producer& p, const Space& space) {
  const int num_ranks = space.num_ranks();
  // Rows of several ranks share a tile, unless tiles are smaller than what one rank has.
  const std::int64_t height = p.tile[0] < p.m ? p.tile[0] : std::min(std::max(kTileRows, p.m), p.m * num_ranks);
  Draft draft("all_gather gemm", Route::staged, p, num_ranks);
  draft.param("k", p.k);
  draft.param("strips", ceil_div(p.m, p.tile[0]));  // of the rows that one rank sends
  draft.param("tall", ceil_div(p.m * num_ranks, height));
  const Expr strips = Expr::name("strips"), lanes = Expr::name("tall") * cols;
  const BoxRule own{{0, 0}, {m, k}}, all{{0, 0}, {N * m, k}};
  const auto part = [](const Expr& rank) { return BoxRule{{rank * m, 0}, {rank * m + m, k}}; };
  const auto [input, gathered, y] = gather_buffers(&draft);
  const int full = draft.counter("full", N, strips), used = draft.counter("used", 1, lanes);
  const int credit = draft.credit_counter(N);

  Rule send = draft.trigger("send", own);
  send.tile = {p.tile[0], 0};
  send.limit = Limit::peer;
  send.limit_peer = r;
  send.waits = {wait(credit).index(other(j)).lag(1).each(N - 1)};
  send.sources = {piece(input, own)};
  send.targets = {piece(gathered, part(r)).of((r + j) % N).each(N)};
  send.signals = {signal((r + j) % N, full).index(r).each(N)};
  draft.add(send);

  Rule rule = draft.step("gemm", rows(0, N * m));
  rule.tile[0] = height;
  rule.limit = Limit::none;  // counts are those of ranks, whose rows share tiles
  rule.waits = {wait(full).index(j).reaches(strips).each(N)};
  rule.reads = {piece(gathered, all)};
  rule.targets = {piece(y, rows(0, N * m))};
  rule.signals = {signal(r, used)};
  rule.finish = p.has_epilogue();
  draft.add(rule);
  draft.credit(wait(used).reaches(lanes), {signal(other(j), credit).index(r).each(N - 1)});

  Owed rows_owed = owed_copy(gathered, N, s, part(s), false);
  rows_owed.leaf = -1 - input;
  draft.plan.owed = {owed_copy(y, 1, r, rows(0, N * m), p.has_epilogue()), rows_owed};
  return draft.plan;
}

}  // namespace weft
