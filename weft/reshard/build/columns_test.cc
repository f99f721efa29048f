#include "weft/reshard/build/columns.h"

#include <gtest/gtest.h>

namespace weft::resharding {
namespace {

TEST(ReshardColumns, ARowIsReadWhereItWasWritten) {
  Table cells;
  append(Box{{1, 3}, {5, 9}}, 2, &cells);
  append<NodeRow>({.order = 10, .order_step = 11, .full = 12, .first_kid = 13, .num_kids = 14}, &cells);
  EXPECT_EQ(cells, (Table{1, 5, 3, 9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(std::ssize(cells), 2 * 2 + kWidth<NodeRow>);
  const auto node = columns<NodeRow>("node", Expr::name("row"), 4);
  const Scope scope{{"row"}, {"node"}};
  const std::int64_t at_zero[] = {0};
  const Table tables[] = {cells};
  EXPECT_EQ(Formula(node.order, scope).eval(at_zero, tables), 10);
  EXPECT_EQ(Formula(node.full, scope).eval(at_zero, tables), 12);
  EXPECT_EQ(Formula(node.num_kids, scope).eval(at_zero, tables), 14);
}

TEST(ReshardColumns, ColumnsReadAsAPersonWouldWriteThem) {
  const auto kid = columns<KidRow>("kid", (Expr::name("begin") + Expr::name("j")) * kWidth<KidRow>);
  EXPECT_EQ(kid.rank.str(), "kid[(begin + j) * 3]");
  EXPECT_EQ(kid.open.str(), "kid[(begin + j) * 3 + 2]");
  EXPECT_EQ(RankRows{}.count().str(), "first[1 + r] - first[r]");
}

TEST(ReshardColumns, BoxesAreMovedIntoAShardsCoordinates) {
  const ShardRows shards{8, 1};
  EXPECT_EQ(shards.size_of(Expr::name("r"), 0).str(), "shard[8 + (r * 2 + 1)]");
  const BoxRule box = shards.within(Expr::name("r"));
  ASSERT_EQ(box.lo.size(), 1u);
  EXPECT_EQ(box.lo[0].str(), "lo0 - shard[8 + r * 2]");
  EXPECT_EQ(box.hi[0].str(), "hi0 - shard[8 + r * 2]");
  const auto lets = box_lets("owed", 0, RankRows{4}, 3, 1);
  ASSERT_EQ(lets.size(), 3u);
  EXPECT_EQ(lets[0].value.str(), "(first[4 + r] + s) * 3");
  EXPECT_EQ(lets[2].name, "hi0");
}

}  // namespace
}  // namespace weft::resharding
