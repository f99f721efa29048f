#include "weft/collective/draft.h"

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {

using namespace var;  // NOLINT: the vocabulary of rules

Draft::Draft(std::string_view what, Route route, const Producer& producer_in, int num_ranks) : producer(producer_in) {
  plan.name = fmt::format("{} {}", what, to_string(route));
  plan.route = route;
  plan.num_ranks = num_ranks;
  plan.producers = {producer};
  param("m", producer.m);
  param("n", producer.n);
  param("tm", producer.tile[0]);
  param("tn", producer.tile[1]);
  param("cols", ceil_div(producer.n, producer.tile[1]));
}

int Draft::buffer(Buffer b) {
  plan.buffers.push_back(std::move(b));
  return int_size(plan.buffers) - 1;
}

int Draft::counter(std::string name, Expr count, Expr total) {
  plan.counters.push_back({std::move(name), std::move(count), std::move(total)});
  return int_size(plan.counters) - 1;
}

int Draft::open_counter(Expr count) {
  const int open = counter("open", std::move(count), 1);
  plan.counters[open].purpose = Purpose::open;
  return open;
}

int Draft::credit_counter(Expr count) {
  const int credit = counter("credit", std::move(count), 1);
  plan.counters[credit].purpose = Purpose::credit;
  return credit;
}

int Draft::output(Expr rows, Expr columns) {
  Buffer b;
  b.name = "y";
  b.dtype = producer.y();
  b.role = Role::output;
  b.shape = {std::move(rows), std::move(columns)};
  return buffer(std::move(b));
}

int Draft::inbox(Expr slots, Dtype wire, std::string name) {
  if (wire != Dtype::f32 && wire != Dtype::bf16 && wire != Dtype::int8)
    bad_input("partial sums cannot travel as {}; use f32, bf16 or int8", to_string(wire));
  std::int64_t tile_cols = producer.tile[1];
  if (wire == Dtype::int8) {  // a tile that is all of a row may end within a block
    if (tile_cols % kInt8Block != 0 && tile_cols < producer.n)
      bad_input("int8 travels in blocks of {} columns, but tiles are {} wide; give them a multiple of it", kInt8Block,
                tile_cols);
    tile_cols = ceil_div(tile_cols, kInt8Block) * kInt8Block;
  }
  Buffer b;
  b.name = std::move(name);
  b.dtype = wire;
  b.shape = {std::move(slots) * cap, n};
  b.packing = {cap, producer.tile[0], tile_cols};
  return buffer(std::move(b));
}

Rule Draft::step(std::string name, BoxRule box) const {
  Rule rule = trigger(std::move(name), std::move(box));
  rule.kind = ActionKind::step;
  rule.producer = 0;
  return rule;
}

Rule Draft::trigger(std::string name, BoxRule box) const {
  Rule rule;
  rule.name = std::move(name);
  rule.box = std::move(box);
  if (!rule.box.lo.empty()) {
    rule.tile = producer.tile;
    rule.limit = Limit::rows;
  }
  return rule;
}

void Draft::open(std::vector<SignalRule> signals, Expr when) {
  Rule rule = trigger("open");
  rule.when = std::move(when);
  rule.signals = std::move(signals);
  add(std::move(rule));
}

void Draft::credit(WaitRule used, std::vector<SignalRule> signals) {
  Rule rule = trigger("credit");
  rule.waits = {std::move(used)};
  rule.signals = std::move(signals);
  add(std::move(rule));
}

SlicedBy columns_first(const Producer& p, int slices) {
  return ceil_div(p.n, p.tile[1]) >= slices ? SlicedBy::columns : SlicedBy::rows;
}

std::vector<Let> slice_lets(SlicedBy by) {
  const Expr tile_rows = up(b - a, tm);
  if (by == SlicedBy::columns)
    return {{"u", tile_rows * cut(cols, S, q)},
            {"lo", a},
            {"hi", b},
            {"x", tn * cut(cols, S, q)},
            {"z", min(n, tn * cut(cols, S, q + 1))}};
  return {{"u", cols * cut(tile_rows, S, q)},
          {"lo", min(b, a + tm * cut(tile_rows, S, q))},
          {"hi", min(b, a + tm * cut(tile_rows, S, q + 1))},
          {"x", 0},
          {"z", n}};
}

void check_same_width(const Producer& p) {
  if (!p.n_of.empty()) bad_input("outputs of different widths cannot be stacked by rows; give every rank the same n");
}

BoxRule stacked(const Expr& rank) { return rows(rank * m, rank * m + m); }

Owed owed_copy(int buffer, Expr count, Expr from, BoxRule box, bool finished) {
  Owed owed;
  owed.count = std::move(count);
  owed.piece = piece(buffer, std::move(box));
  owed.origin = {0, 0};
  owed.first = std::move(from);
  owed.finished = finished;
  return owed;
}

}  // namespace weft
