#include "weft/plan/rule_words.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

const Expr kRank = Expr::name("r"), kLoop = Expr::name("s");

TEST(RuleWords, WhatIsNotSaidKeepsItsDefault) {
  const WaitRule plain_wait, w = wait(3);
  EXPECT_EQ(w.counter, 3);
  EXPECT_EQ(w.index.str(), plain_wait.index.str());
  EXPECT_EQ(w.at.str(), plain_wait.at.str());
  EXPECT_EQ(w.lag, plain_wait.lag);
  EXPECT_EQ(w.per.str(), plain_wait.per.str());
  EXPECT_TRUE(w.each.is_number(1) && w.when.is_number(1));
  const PieceRule p = piece(2, {{0}, {kLoop}});
  EXPECT_EQ(p.rank.str(), "r");
  EXPECT_EQ(p.buffer, 2);
  EXPECT_EQ(p.box.hi[0].str(), "s");
  EXPECT_TRUE(p.each.is_number(1) && p.when.is_number(1));
  const SignalRule g = signal(kRank + 1, 4);
  EXPECT_EQ(g.rank.str(), "r + 1");
  EXPECT_EQ(g.counter, 4);
  EXPECT_TRUE(g.index.is_number(0) && g.per.is_number(0) && g.each.is_number(1) && g.when.is_number(1));
}

TEST(RuleWords, EachWordSetsItsField) {
  const WaitRule w = wait(1).index(kLoop * 2).reaches(7).lag(2).per_lanes(5).each(3).when(gt(kLoop, 0));
  EXPECT_EQ(w.index.str(), "s * 2");
  EXPECT_TRUE(w.at.is_number(7) && w.per.is_number(5) && w.each.is_number(3));
  EXPECT_EQ(w.lag, 2);
  EXPECT_EQ(w.when.str(), gt(kLoop, 0).str());
  const PieceRule p = piece(0, {}).of(kLoop).each(4).when(0);
  EXPECT_EQ(p.rank.str(), "s");
  EXPECT_TRUE(p.each.is_number(4) && p.when.is_number(0));
  const SignalRule g = signal(0, 0).index(9).per_lane().each(kRank).when(kLoop);
  EXPECT_TRUE(g.index.is_number(9) && g.per.is_number(1));
  EXPECT_EQ(g.each.str() + g.when.str(), "rs");
}

// Words can be kept and said again: what is added to one copy is not in the other.
TEST(RuleWords, AreValues) {
  const WaitWords full = wait(1).per_lane();
  WaitWords other = full;
  other.when(0);
  std::vector<WaitRule> list = {full, other};
  list.push_back(wait(2));
  EXPECT_TRUE(list[0].when.is_number(1));
  EXPECT_TRUE(list[1].when.is_number(0) && list[1].per.is_number(1));
  EXPECT_EQ(list[2].counter, 2);
}

}  // namespace
}  // namespace weft
