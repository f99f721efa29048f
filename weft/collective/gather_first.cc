// A gather before the product, for products so thin that reading their weights is most of the work: every rank's rows
// are brought together in one buffer, and one gemm over all of them reads the weights once, where a gemm for each
// rank's rows reads them N times (ag-gemm, 2 rows per rank, k 256, n 512: 1.57 times gather, then gemm).
#include <algorithm>

#include "weft/collective/gather_gemm.h"

namespace weft {

using namespace var;  // NOLINT: the vocabulary of rules

namespace {

constexpr std::int64_t kTileRows = 64;  // of a gemm that may choose

}  // namespace

Plan build_gather_first(const Producer& p, const Space& space) {
  const int num_ranks = space.num_ranks();
  // Rows of several ranks share a tile, unless tiles are smaller than what one rank has.
  const std::int64_t height = p.tile[0] < p.m ? p.tile[0] : std::min(std::max(kTileRows, p.m), p.m * num_ranks);
  GatherGemm gather(Draft("all_gather gemm", Route::staged, p, num_ranks));
  Draft& draft = gather.draft;
  draft.param("tall", ceil_div(p.m * num_ranks, height));
  const Expr lanes = Expr::name("tall") * cols;
  gather.full = draft.counter("full", N, strips), gather.used = draft.counter("used", 1, lanes);
  gather.credit = draft.credit_counter(N);

  Rule send = gather.move("send", r);
  send.waits = {wait(gather.credit).index(other(j)).lag(1).each(N - 1)};
  send.sources = {piece(gather.x, rows_of_x())};
  send.targets = {piece(gather.a, rows_of_a(r)).of((r + j) % N).each(N)};
  send.signals = {signal((r + j) % N, gather.full).index(r).each(N)};
  draft.add(send);

  Rule rule = draft.step("gemm", rows(0, N * m));
  rule.tile[0] = height;
  rule.limit = Limit::none;  // counts are those of ranks, whose rows share tiles
  rule.waits = {wait(gather.full).index(j).reaches(strips).each(N)};
  rule.reads = {piece(gather.a, {{0, 0}, {N * m, k}})};
  rule.targets = {piece(gather.y, rows(0, N * m))};
  rule.signals = {signal(r, gather.used)};
  rule.finish = p.has_epilogue();
  draft.add(rule);
  draft.credit(wait(gather.used).reaches(lanes), {signal(other(j), gather.credit).index(r).each(N - 1)});
  return gather.finished(N, s);
}

}  // namespace weft
