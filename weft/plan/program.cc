#include "weft/plan/program.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/plan/rule_words.h"

namespace weft {

Grid grid_of(const Box& box, const std::array<std::int64_t, 2>& tile) {
  Grid grid;
  if (box.dims > 0 && tile[0] > 0) grid.rows = ceil_div(box.size(0), tile[0]);
  if (box.dims > 1 && tile[1] > 0) grid.cols = ceil_div(box.size(1), tile[1]);
  return grid;
}

Box lane_box(const Box& piece, const std::array<std::int64_t, 2>& tile, std::int64_t lane) {
  const Grid grid = grid_of(piece, tile);
  const std::int64_t at[2] = {lane / grid.cols, lane % grid.cols};
  Box out = piece;
  for (int d = 0; d < 2 && d < piece.dims; ++d) {
    if (tile[d] == 0) continue;
    out.lo[d] = piece.lo[d] + at[d] * tile[d];
    out.hi[d] = std::min(piece.hi[d], out.lo[d] + tile[d]);
  }
  return out;
}

Box lane_rows(const Box& piece, const Action& action, std::int64_t lane) {
  return lane_box(piece, {action.tile[0], 0}, lane / grid_of(action.box, action.tile).cols);
}

std::string describe(const Plan& plan, const Program& program, std::size_t index) {
  const Action& action = program.actions[index];
  std::size_t number = 0;
  for (std::size_t i = 0; i < index; ++i) number += program.actions[i].kind == action.kind;
  return fmt::format("{} {} of rank {} ({}, s = {})", action.kind == ActionKind::step ? "step" : "trigger", number,
                     program.rank, plan.rules[action.rule].name, action.s);
}

namespace {

constexpr std::int64_t kMaxWrittenOut = std::int64_t{1} << 20;

BoxRule constant(const Box& box) {
  BoxRule out;
  for (int d = 0; d < box.dims; ++d) {
    out.lo.emplace_back(box.lo[d]);
    out.hi.emplace_back(box.hi[d]);
  }
  return out;
}

// Counters keep their families: flat id -> (family, index).
std::pair<int, std::int64_t> family_of(const Plan& plan, const Expander& expander, int counter, int rank) {
  int family = int_size(plan.counters) - 1;
  while (family > 0 && expander.counter_base(family, rank) > counter) --family;
  return {family, counter - expander.counter_base(family, rank)};
}

void add_written_out(const Plan& plan, const Expander& expander, const Program& program, const Action& action,
                     std::int64_t lane, bool by_lane, Plan* out) {
  Rule rule;
  const auto cut_piece = [&](const Box& box) { return by_lane ? lane_box(box, action.tile, lane) : box; };
  const auto index_of = [&](std::int64_t base, std::int32_t per) {
    return by_lane && per > 0 ? base + lane / per : base;
  };
  rule.name = plan.rules[action.rule].name;
  rule.kind = action.kind;
  rule.when = eq(Expr::name("r"), program.rank);
  rule.producer = action.producer;
  if (action.box.dims > 0) rule.box = constant(cut_piece(action.box));
  if (!by_lane) rule.tile = action.tile;
  for (const Wait& w : program.of(action)) {
    const auto [family, index] = family_of(plan, expander, w.counter, program.rank);
    const int per = by_lane ? 0 : w.per;
    rule.waits.push_back(wait(family).index(index_of(index, w.per)).reaches(w.at).lag(w.lag).per_lanes(per));
  }
  for (const Piece& p : program.reads(action))
    rule.reads.push_back(piece(p.buffer, constant(by_lane ? lane_rows(p.box, action, lane) : p.box)).of(p.rank));
  for (const Piece& p : program.sources(action))
    rule.sources.push_back(piece(p.buffer, constant(cut_piece(p.box))).of(p.rank));
  for (const Piece& p : program.targets(action))
    rule.targets.push_back(piece(p.buffer, constant(cut_piece(p.box))).of(p.rank));
  for (const Signal& g : program.signals_of(action)) {
    const auto [family, index] = family_of(plan, expander, g.counter, g.rank);
    rule.signals.push_back(signal(g.rank, family).index(index_of(index, g.per)).per_lanes(by_lane ? 0 : g.per));
  }
  rule.finish = action.finish;
  rule.limit = action.limit;
  rule.limit_peer = action.limit_peer;
  rule.order = action.order + (by_lane ? lane * action.order_step : 0);
  if (!by_lane) rule.order_step = action.order_step;
  out->rules.push_back(std::move(rule));
}

}  // namespace

Plan written_out(const Plan& plan, bool by_lane) {
  const Expander expander(plan);
  Plan out = plan;
  out.rules.clear();
  std::int64_t rules = 0;
  for (int rank = 0; rank < plan.num_ranks; ++rank) {
    const Program program = expander.program(rank);
    for (const Action& action : program.actions) {
      rules += by_lane ? action.lanes : 1;
      if (rules > kMaxWrittenOut)
        bad_input("plan \"{}\" written out has more than {} actions", plan.name, kMaxWrittenOut);
      for (std::int64_t lane = 0; lane < (by_lane ? action.lanes : 1); ++lane)
        add_written_out(plan, expander, program, action, lane, by_lane, &out);
    }
  }
  return out;
}

}  // namespace weft
