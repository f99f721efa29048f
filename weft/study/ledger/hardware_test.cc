// The row of hardware that is not there: the floor and what its links leave exposed, and none where it cannot be said.
#include "weft/study/ledger/hardware.h"

#include <gtest/gtest.h>

#include "weft/base/index.h"

namespace weft {
namespace {

// A floor of a millisecond on two ranks with links of `bytes_per_s`.
LedgerTable table_with(double bytes_per_s, Fabric fabric = Fabric::nic) {
  LedgerTable table;
  table.ranks = 2;
  table.cluster = default_cluster(2);
  table.link = {Link{.bytes_per_s = bytes_per_s, .latency_s = 1e-6, .fabric = fabric}, "test"};
  table.rows.push_back({.name = kFloor, .measured_us = 900, .predicted_us = 1000});
  return table;
}

sim::SimShape product(std::int64_t m, int ranks = 2) { return {m, 256, 64, ranks, 4}; }

TEST(SimulatedRow, IsTheFloorAndWhatIsExposed) {
  const std::vector<sim::SimShape> shapes{product(256), product(512)};
  const auto row = simulated_row(table_with(1e9), shapes, 1);
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->name, "track_and_trigger");
  EXPECT_FALSE(row->measured_us.has_value());
  EXPECT_GT(*row->exposed_us, 0);
  EXPECT_DOUBLE_EQ(*row->predicted_us, 1000 + *row->exposed_us);
}

TEST(SimulatedRow, ProductsAddUpAndAreRepeated) {
  const LedgerTable table = table_with(1e9);
  const std::vector<sim::SimShape> one{product(256)}, other{product(512)}, both{product(256), product(512)};
  const double sum = *simulated_row(table, one, 1)->exposed_us + *simulated_row(table, other, 1)->exposed_us;
  EXPECT_NEAR(*simulated_row(table, both, 1)->exposed_us, sum, 1e-9 * sum);
  EXPECT_NEAR(*simulated_row(table, both, 16)->exposed_us, 16 * sum, 1e-9 * sum);
  EXPECT_EQ(*simulated_row(table, {}, 1)->exposed_us, 0);
}

TEST(SimulatedRow, SlowerLinksExposeMore) {
  const std::vector<sim::SimShape> shapes{product(512)};
  double before = 0;
  for (const double rate : {1e11, 1e10, 1e9, 1e8}) {
    const double exposed = *simulated_row(table_with(rate), shapes, 1)->exposed_us;
    EXPECT_GE(exposed, before) << rate;
    before = exposed;
  }
  EXPECT_GT(before, 0);
}

TEST(SimulatedRow, IsNoneWhereRanksCannotShareTheRows) {
  LedgerTable table = table_with(1e9);
  table.ranks = 3;
  const std::vector<sim::SimShape> shapes{product(256, 3)};  // neither 256 rows nor 256 columns
  EXPECT_FALSE(simulated_row(table, shapes, 1).has_value());
}

TEST(SimulatedRow, OfABlockIsThatOfItsSummedProducts) {
  BlockLedger ledger;
  const Workload whole = load_workload("t-nlg");
  ledger.workload = scaled(whole, whole.scale_down);
  ledger.table = table_with(1e9);
  ledger.table.ranks = 4;
  add_simulated_row(&ledger);
  ASSERT_EQ(ledger.table.rows.size(), 2u);
  EXPECT_EQ(ledger.table.rows[1].name, "track_and_trigger");
  ledger.workload = load_workload("dlrm-v2");
  add_simulated_row(&ledger);
  EXPECT_EQ(ledger.table.rows.size(), 2u) << "tables exchange otherwise";
}

}  // namespace
}  // namespace weft
