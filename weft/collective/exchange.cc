// Outputs that are not summed: kept where they are made, or each part of the rows stored straight to the rank that
// needs it, others' parts first and this rank's own last.
//
//   direct  a tile is made for one rank and stored there: it ends where that rank's rows end
//   staged  tiles are made here as tall as they would be alone, and each rank's rows of them are copied to it. Where
//           few rows go to each rank, as from an expert, direct would read all weights again for each of them
//
// A window is written before its run starts, so its waits look back (lag 1) to what peers did in the run before, and
// its output has two copies: while one is read, the other may be written.
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/collective/draft.h"

namespace weft {
namespace {

using namespace var;  // NOLINT: the vocabulary of rules

// Where the parts of an exchange begin, as expressions: even parts by rule, uneven ones from tables.
struct Parts {
  bool uneven;
  Expr sent(const Expr& from, const Expr& to) const {  // in the sender's rows
    return uneven ? Expr::table("sent", from * (N + 1) + to) : cut(m, N, to);
  }
  Expr received(const Expr& from, const Expr& to) const {  // in the receiver's rows
    return uneven ? Expr::table("received", to * (N + 1) + from) : from * chunk_rows(to);
  }
  Expr size(const Expr& from, const Expr& to) const { return sent(from, to + 1) - sent(from, to); }
};

Parts place_rows(Draft& draft, const SpaceOptions& options) {
  const int num_ranks = draft.plan.num_ranks;
  if (options.rows.empty()) return {false};
  if (options.rows.size() != num(num_ranks) * num_ranks)
    bad_input("all_to_all has {} row counts; give {} x {}, those of rank s to rank d at [s * {} + d]",
              options.rows.size(), num_ranks, num_ranks, num_ranks);
  Table sent, received;
  for (int from = 0; from < num_ranks; ++from) {
    std::int64_t at = 0;
    for (int to = 0; to <= num_ranks; ++to) {
      sent.push_back(at);
      if (to == num_ranks) break;
      const std::int64_t rows = options.rows[from * num_ranks + to];
      if (rows < 0) bad_input("rank {} sends {} rows to rank {}; counts are 0 or more", from, rows, to);
      at += rows;
    }
    if (at > draft.producer.m)
      bad_input("rank {} sends {} rows, but its output has {}; raise m or lower the counts", from, at,
                draft.producer.m);
  }
  for (int to = 0; to < num_ranks; ++to) {
    std::int64_t at = 0;
    for (int from = 0; from <= num_ranks; ++from) {
      received.push_back(at);
      if (from < num_ranks) at += options.rows[from * num_ranks + to];
    }
  }
  draft.plan.tables.push_back({"sent", sent});
  draft.plan.tables.push_back({"received", received});
  return {true};
}

// Columns of each rank: the same n, or from a table of where they begin.
struct Columns {
  bool differ;
  Expr begin(const Expr& rank) const { return differ ? Expr::table("columns", rank) : rank * n; }
  Expr size(const Expr& rank) const { return differ ? begin(rank + 1) - begin(rank) : n; }
};

Columns place_columns(Draft& draft) {
  const Producer& p = draft.producer;
  if (p.n_of.empty()) return {false};
  Table columns{0};
  for (const std::int64_t width : p.n_of) columns.push_back(columns.back() + width);
  draft.plan.tables.push_back({"columns", columns});
  return {true};
}

// An exchange being written: who sends what, and where it lands.
struct Exchange {
  Draft draft;
  Parts parts;
  Columns columns;
  bool side_by_side;
  int y = -1, open = -1, got = -1;

  Exchange(const Producer& p, const Space& space, Route route)
      : draft(fmt::format("{} all_to_all", to_string(p.kind)), route, p, space.num_ranks()),
        parts(place_rows(draft, space.options)),
        columns(place_columns(draft)),
        side_by_side(space.options.stack == Stack::columns) {
    y = side_by_side ? draft.output(chunk_rows(r), columns.begin(N)) : draft.output(parts.received(N, r), n);
  }

  // In the receiver's output.
  BoxRule place(const Expr& from, const Expr& to) const {
    if (side_by_side) return {{0, columns.begin(from)}, {parts.size(from, to), columns.begin(from + 1)}};
    return rows(parts.received(from, to), parts.received(from, to) + parts.size(from, to));
  }
  BoxRule part(const Expr& to) const { return {{parts.sent(r, to), 0}, {parts.sent(r, to + 1), columns.size(r)}}; }

  void add_counters(const Expr& lanes_of_i) {
    open = draft.open_counter(N), got = draft.counter("got", N, lanes_of_i);
    draft.open({signal(other(j), open).index(r).each(N - 1)});
  }

  // To one rank after another, this one last.
  void add_moves(Rule rule, int lag) {
    rule.count = N;
    rule.let = {{"d", (r + 1 + s) % N}};
    rule.limit = Limit::peer;
    rule.limit_peer = d;
    rule.waits.push_back(wait(open).index(d).lag(lag).when(ne(d, r)));
    rule.targets = {piece(y, place(r, d)).of(d)};
    rule.signals = {signal(d, got).index(r).when(ne(d, r))};
    draft.add(rule);
  }

  Plan finished(const Expr& lanes_of_other) {
    Rule arrive = draft.trigger("arrive");
    arrive.waits = {wait(got).index(other(j)).reaches(lanes_of_other).each(N - 1)};
    draft.add(arrive);
    Owed owed = owed_copy(y, N, s, place(s, r), draft.producer.has_epilogue());
    owed.origin[0] = parts.sent(s, r);
    draft.plan.owed = {owed};
    return draft.plan;
  }
};

Plan direct_exchange(const Producer& p, const Space& space) {
  Exchange x(p, space, Route::direct);
  const bool window = p.kind == ProducerKind::window;
  const auto lanes = [&](const Expr& from, const Expr& to) {
    if (window) return gt(x.parts.size(from, to), 0);  // all rows are there at once
    return up(x.parts.size(from, to), tm) * up(x.columns.size(from), tn);
  };
  if (window) x.draft.plan.buffers[x.y].depth = 2;
  x.add_counters(lanes(i, r));
  Rule rule = x.draft.step("exchange", x.part(d));
  if (window) rule.tile = {0, 0};
  rule.finish = p.has_epilogue();
  x.add_moves(rule, window ? 1 : 0);
  return x.finished(lanes(other(j), r));
}

// A copy waits, column by column, for the strips that its rows lie in.
Plan staged_exchange(const Producer& p, const Space& space) {
  Exchange x(p, space, Route::staged);
  const auto lanes = [&](const Expr& from, const Expr& to) {
    return gt(x.parts.size(from, to), 0) * up(x.columns.size(from), tn);
  };
  x.add_counters(lanes(i, r));
  const Expr all = x.parts.sent(r, N), width = up(x.columns.size(r), tn);
  const BoxRule whole{{0, 0}, {all, x.columns.size(r)}};
  Buffer stage;
  stage.name = "stage", stage.shape = {all, x.columns.size(r)}, stage.dtype = p.y();
  const int staged = x.draft.buffer(stage);
  const int made = x.draft.counter("made", up(all, tm) * width, 1);
  Rule make = x.draft.step("make", whole);
  make.limit = Limit::none;  // counts are those of peers, whose rows share tiles
  make.targets = {piece(staged, whole)};
  make.signals = {signal(r, made).per_lane()};
  make.finish = p.has_epilogue();
  x.draft.add(make);

  Rule copy = x.draft.trigger("exchange", x.part(d));
  copy.tile = {0, p.tile[1]};
  const Expr first = x.parts.sent(r, d) / tm, strips = up(x.parts.sent(r, d + 1), tm) - first;
  const Expr needed = strips * gt(x.parts.size(r, d), 0);
  copy.waits = {wait(made).index((first + j) * width).per_lane().each(needed)};
  copy.sources = {piece(staged, x.part(d))};
  x.add_moves(copy, 0);
  return x.finished(lanes(other(j), r));
}

}  // namespace

Plan build_keep(const Producer& p, int num_ranks) {
  Draft draft(to_string(p.kind), Route::local, p, num_ranks);
  draft.plan.name = fmt::format("{} keep", to_string(p.kind));
  const Columns columns = place_columns(draft);
  const int y = draft.output(m, columns.size(r));
  const BoxRule whole{{0, 0}, {m, columns.size(r)}};
  Rule rule = draft.step("make", whole);
  if (p.kind == ProducerKind::window) draft.plan.buffers[y].depth = 2, rule.tile = {0, 0};
  rule.targets = {piece(y, whole)};
  rule.finish = p.has_epilogue();
  draft.add(rule);
  draft.plan.owed = {owed_copy(y, 1, r, whole, p.has_epilogue())};
  return draft.plan;
}

Plan build_all_to_all(const Producer& p, const Space& space, Route route) {
  const bool side_by_side = space.options.stack == Stack::columns;
  if (p.residual) bad_input("all_to_all has no residual: the rows that a rank makes are not those it keeps");
  if (!p.n_of.empty() && !side_by_side)
    bad_input("outputs of different widths cannot be stacked by rows; set them side by side (stack = columns)");
  if (side_by_side && !space.options.rows.empty())
    bad_input("uneven rows cannot be set side by side; leave rows empty or stack by rows");
  if (route != Route::direct && route != Route::staged)
    bad_input("all_to_all has no route {}; use auto, direct or staged", to_string(route));
  if (route == Route::staged && space.num_ranks() > kMaxStagedRanks)
    bad_input("route staged is for at most {} ranks, not {}; use auto or direct", kMaxStagedRanks, space.num_ranks());
  return route == Route::staged ? staged_exchange(p, space) : direct_exchange(p, space);
}

}  // namespace weft
