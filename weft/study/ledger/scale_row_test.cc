#include "weft/study/ledger/scale_row.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(ScaleRow, IsAStepOfTheWholeModel) {
  BlockLedger ledger;
  add_scale_row(&ledger, load_workload("llama-2-70b"));
  ASSERT_EQ(ledger.table.rows.size(), 1u);
  const LedgerRow& row = ledger.table.rows[0];
  EXPECT_EQ(row.name, "at_scale");
  EXPECT_GT(*row.predicted_us, *row.exposed_us);
  EXPECT_GT(*row.exposed_us, 0);
  EXPECT_NE(row.note.find("1024 GPUs; bulk"), std::string::npos) << row.note;
  Workload small = load_workload("llama-2-70b");
  small.training = {};
  add_scale_row(&ledger, small);
  add_scale_row(&ledger, load_workload("dlrm-v2"));
  EXPECT_EQ(ledger.table.rows.size(), 1u);
}

}  // namespace
}  // namespace weft
