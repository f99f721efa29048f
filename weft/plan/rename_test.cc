#include "weft/plan/rename.h"

#include <gtest/gtest.h>

#include "weft/plan/rule_words.h"

namespace weft {
namespace {

const Expr kM = Expr::name("m");
const Renaming kToN{{{"m", Expr::name("n")}}, {{"rows", "columns"}}};

TEST(Rename, TouchesNamesAndTablesThatItKnows) {
  EXPECT_EQ(renamed(Expr::parse("m * 2 + k + rows[m]"), kToN).str(), "n * 2 + k + columns[n]");
  EXPECT_EQ(renamed(Expr(7), kToN).str(), "7");
}

TEST(Rename, ReachesEveryExpressionOfARule) {
  Rule rule;
  const BoxRule box{{kM}, {kM}};
  rule.count = rule.when = rule.finish = rule.limit_peer = rule.order = rule.order_step = kM;
  rule.let = {{"t", kM}};
  rule.box = box;
  rule.waits = {wait(0).index(kM).reaches(kM).per_lanes(kM).each(kM).when(kM)};
  rule.reads = rule.sources = rule.targets = {piece(0, box).of(kM).each(kM).when(kM)};
  rule.signals = {signal(kM, 0).index(kM).per_lanes(kM).each(kM).when(kM)};
  rule = renamed(rule, kToN);
  const WaitRule& w = rule.waits[0];
  const SignalRule& g = rule.signals[0];
  std::vector<Expr> all = {rule.count,    rule.when, rule.finish, rule.limit_peer, rule.order, rule.order_step,
                           w.index,       w.at,      w.per,       w.each,          w.when,     rule.let[0].value,
                           g.rank,        g.index,   g.per,       g.each,          g.when,     rule.box.lo[0],
                           rule.box.hi[0]};
  for (const auto* list : {&rule.reads, &rule.sources, &rule.targets})
    for (const PieceRule& p : *list) all.insert(all.end(), {p.rank, p.box.lo[0], p.box.hi[0], p.each, p.when});
  for (const Expr& e : all) EXPECT_EQ(e.str(), "n");
}

TEST(Rename, LetsHideTheNamesTheyDefineFromThereOn) {
  Rule rule;
  rule.count = kM;
  rule.let = {{"k", kM}, {"m", kM + 1}, {"t", kM}};
  rule.when = kM;
  rule = renamed(rule, kToN);
  EXPECT_EQ(rule.count.str(), "n");
  EXPECT_EQ(rule.let[0].value.str(), "n");
  EXPECT_EQ(rule.let[1].value.str(), "n + 1");
  EXPECT_EQ(rule.let[2].value.str(), "m");
  EXPECT_EQ(rule.when.str(), "m");
}

TEST(Rename, ReachesEveryExpressionOfAPromise) {
  Owed owed;
  owed.count = owed.when = owed.first = owed.contributors = owed.ranks_per_host = kM;
  owed.origin = {kM};
  owed.piece = piece(2, {{kM}, {kM}}).of(kM);
  owed.leaf = -3;
  owed = renamed(owed, kToN);
  for (const Expr& e : {owed.count, owed.when, owed.first, owed.contributors, owed.ranks_per_host, owed.origin[0],
                        owed.piece.rank, owed.piece.box.lo[0], owed.piece.box.hi[0]})
    EXPECT_EQ(e.str(), "n");
  EXPECT_EQ(owed.piece.buffer, 2);
  EXPECT_EQ(owed.leaf, -3);
}

}  // namespace
}  // namespace weft
