// Limits of rows by number: the same again soon has the same number, however many there are; what they mean is kept.
#include "weft/plan/verify/limits.h"

#include <gtest/gtest.h>

namespace weft::verifying {
namespace {

TEST(LimitTable, NumbersKeepWhatTheyStandFor) {
  LimitTable table;
  EXPECT_EQ(table.intern({}), LimitTable::kNone);
  EXPECT_EQ(table.intern({.rows = 0}), LimitTable::kRows);
  std::vector<std::int32_t> ids;
  constexpr std::int32_t kRanks = 100;  // far more pairs than are remembered at once
  const auto of_pair = [](std::int32_t by, std::int32_t peer) {
    return Limits{.peer = peer, .by = by, .shift = 3 * peer};
  };
  for (std::int32_t by = 0; by < kRanks; ++by)
    for (std::int32_t peer = 0; peer < kRanks; ++peer) {
      ids.push_back(table.intern(of_pair(by, peer)));
      EXPECT_EQ(table.intern(of_pair(by, peer)), ids.back()) << "again, at once";
    }
  for (std::int32_t i = 0; i < kRanks * kRanks; ++i)
    ASSERT_EQ(table[ids[at(i)]], of_pair(i / kRanks, i % kRanks)) << "whatever came after";
  EXPECT_GE(table.bytes(), kRanks * kRanks * std::int64_t{sizeof(Limits)});
}

TEST(LimitTable, TwoLimitsAreTheStricterOfEach) {
  LimitTable table;
  const std::int32_t rows = table.intern({.rows = 2}), peer = table.intern({.peer = 1, .by = 0, .shift = 4});
  EXPECT_EQ(table.both(rows, LimitTable::kNone), rows);
  const Limits both = table[table.both(rows, peer)];
  EXPECT_EQ(both.rows, 2);
  EXPECT_EQ(both.peer, 1);
  EXPECT_EQ(both.shift, 4);
  EXPECT_EQ(table[table.both(peer, table.intern({.peer = 1, .by = 7, .shift = 9}))].shift, 9);
  EXPECT_EQ(table[table.both(peer, table.intern({.peer = 1, .by = 7, .shift = 9}))].by, 0)
      << "the first to leave rows out";
  EXPECT_EQ(table[table.both(peer, table.intern({.peer = 2}))].peer, Limits::kSeveral);
}

TEST(LimitTable, RowsThatAreCalledOtherwiseTakeTheirLimitsAlong) {
  LimitTable table;
  const std::int32_t id = table.intern({.rows = 2, .peer = 1, .by = 0, .shift = 4});
  EXPECT_EQ(table.moved(id, 0), id);
  EXPECT_EQ(table.moved(LimitTable::kNone, 5), LimitTable::kNone);
  const Limits moved = table[table.moved(id, 5)];
  EXPECT_EQ(moved.rows, -3);
  EXPECT_EQ(moved.shift, -1);
  EXPECT_EQ(table[table.moved(table.moved(id, 5), -5)], table[id]);
}

}  // namespace
}  // namespace weft::verifying
