#include "weft/study/ledger/table.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(LedgerTable, ExposedIsWhatIsMeasuredBeyondTheFloor) {
  LedgerTable table;
  table.rows = {{.name = "sequential", .measured_us = 90}, {.name = "track_and_trigger", .predicted_us = 70}};
  table.rows.push_back({.name = kFloor, .measured_us = 60});
  set_exposed(&table);
  EXPECT_DOUBLE_EQ(table.exposed_us("sequential"), 30);
  EXPECT_DOUBLE_EQ(table.exposed_us(kFloor), 0);
  EXPECT_FALSE(table.find("track_and_trigger")->exposed_us);  // nobody measured it
}

TEST(LedgerTable, ARowThatIsNotThereHasNoTime) {
  LedgerTable table;
  table.rows = {{.name = "fused", .measured_us = 5}};
  EXPECT_EQ(table.find("panels"), nullptr);
  EXPECT_EQ(table.measured_us("panels"), 0);
  EXPECT_EQ(table.exposed_us("fused"), 0);
  table.find("fused")->predicted_us = 4;
  EXPECT_EQ(table.rows[0].predicted_us, 4);
}

TEST(LedgerTable, RanksAreCrowdedWhereTheyShareCores) {
  EXPECT_TRUE((LedgerTable{.ranks = 4, .cores = 2}).crowded());
  EXPECT_FALSE((LedgerTable{.ranks = 2, .cores = 2}).crowded());
}

}  // namespace
}  // namespace weft
