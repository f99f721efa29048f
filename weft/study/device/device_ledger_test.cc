#include "weft/study/device/device_ledger.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

TEST(DeviceLedger, HasTheProductsOfATransformersBlock) {
  const auto products = device_products(load_workload("t-nlg"), 4);
  ASSERT_EQ(products.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(products[i].name, (std::vector<std::string>{"ip", "op", "fc1", "fc2"}[i]));
    EXPECT_EQ(has_collective(products[i].spec), i % 2 == 1);
    EXPECT_EQ(products[i].spec.producer.x(), Dtype::bf16);
  }
  EXPECT_EQ(refusal([] { device_products(load_workload("dlrm-v2"), 4); }),
            "dlrm-v2 is no transformer; the ledger of a GPU has blocks of those alone");
}

TEST(DeviceLedger, AddsUpWhatWasMeasured) {
  auto products = device_products(load_workload("t-nlg"), 4);
  std::vector<DeviceLedger::Product> measured;
  for (std::size_t i = 0; i < 4; ++i) {
    Measurement m;
    m.compute_us = 100, m.library_us = i == 0 ? 90 : 110, m.fused_us = 105;
    if (i % 2 == 1) m.sequential_us = 150, m.comm_us = 50;
    if (i == 3) m.panels_us = 140;
    measured.push_back({products[i], m});
  }
  const DeviceLedger ledger = added_up(load_workload("t-nlg"), measured);
  EXPECT_DOUBLE_EQ(ledger.table.measured_us(kFloor), 90 + 100 + 100 + 100);
  EXPECT_DOUBLE_EQ(ledger.table.measured_us("sequential"), 90 + 150 + 100 + 150);
  EXPECT_DOUBLE_EQ(ledger.table.measured_us("panels"), 90 + 150 + 100 + 140);
  EXPECT_DOUBLE_EQ(ledger.table.measured_us("fused"), 90 + 105 + 100 + 105);
  EXPECT_DOUBLE_EQ(ledger.table.exposed_us("fused"), 10);
}

}  // namespace
}  // namespace weft
