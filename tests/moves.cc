#include "tests/moves.h"

#include <span>

#include <fmt/core.h>

#include "weft/plan/rule_words.h"

namespace weft::testing {
namespace {

enum { kX, kY };
enum { kFull, kOpen };

Expr at(int rank) { return Expr::parse(fmt::format("r == {}", rank)); }

BoxRule box_of(const Move& move, std::int64_t cols) { return {{move.first, 0}, {move.first + move.rows, cols}}; }

// The receiver of move `index` opens its y for the sender, and in the end has waited for each of its tiles.
void add_ends(Plan& plan, const Move& move, std::int64_t index, std::int64_t tile) {
  Rule open;
  open.name = fmt::format("open{}", index);
  open.when = at(move.to);
  open.signals = {signal(move.from, kOpen).index(index)};
  plan.rules.insert(plan.rules.begin() + index, open);
  Rule landed;
  landed.name = fmt::format("landed{}", index);
  landed.when = at(move.to);
  for (std::int64_t t = move.first / tile; t < (move.first + move.rows) / tile; ++t)
    landed.waits.push_back(wait(kFull).index(t));
  plan.rules.push_back(landed);
}

}  // namespace

Plan plan_of(const Moves& moves) {
  Plan plan;
  plan.name = "moves";
  plan.num_ranks = moves.num_ranks;
  plan.buffers = {{"x", moves.source, Role::input, {moves.rows, moves.cols}, 1, {}},
                  {"y", moves.target, Role::output, {moves.rows, moves.cols}, 1, {}}};
  const auto num_moves = static_cast<std::int64_t>(moves.list.size());
  plan.counters = {{"full", moves.rows / moves.tile_rows, 1}, {"open", num_moves, 1, Purpose::open}};
  for (std::int64_t i = 0; i < num_moves; ++i) {
    const Move& move = moves.list[static_cast<std::size_t>(i)];
    const bool relays = move.origin >= 0 && move.origin != move.from;
    Rule rule;
    rule.name = fmt::format("move{}", i);
    rule.when = at(move.from);
    rule.box = box_of(move, moves.cols);
    rule.tile = {moves.tile_rows, moves.cols};
    rule.waits = {wait(kOpen).index(i)};
    if (relays) rule.waits.push_back(wait(kFull).index(move.first / moves.tile_rows).per_lane());
    rule.sources = {piece(relays ? kY : kX, box_of(move, moves.cols))};
    rule.targets = {piece(kY, box_of(move, moves.cols)).of(move.to)};
    rule.signals = {signal(move.to, kFull).index(move.first / moves.tile_rows).per_lane()};
    plan.rules.push_back(rule);
    add_ends(plan, move, i, moves.tile_rows);
    Owed owed;
    owed.when = at(move.to);
    owed.piece = piece(kY, box_of(move, moves.cols));
    owed.origin = {move.first, 0};
    owed.first = relays ? move.origin : move.from;
    owed.leaf = -1 - kX;
    plan.owed.push_back(owed);
  }
  return plan;
}

void run(Op& op, const void* x) { op.run(std::span<const void* const>(&x, 1)); }

}  // namespace weft::testing
