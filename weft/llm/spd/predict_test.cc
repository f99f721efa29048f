// What must hold of every prediction, whatever the rates of the devices.
#include "weft/llm/spd/predict.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/cluster/data_file.h"

namespace weft {
namespace {

FirstTokenSpec spec_70b() {
  FirstTokenSpec spec;
  spec.workload = load_workload("llama-2-70b");
  spec.cluster = load_cluster(find_data_file("clusters", "cluster", "a100-8"));
  return spec;
}

TEST(PredictDrops, DroppingMoreNeverTakesLongerNorSendsMore) {
  const Link links[] = {parse_link("300GB/s"), parse_link("10GB/s")};
  const double shares[] = {0, 25, 50, 75, 100};
  const auto rows = predict_drops(spec_70b(), links, shares);
  ASSERT_EQ(rows.size(), 10u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].dropped, 20 * static_cast<std::int64_t>(i % 5)) << "of 80 blocks";
    EXPECT_GE(rows[i].comm_share(), 0);
    EXPECT_LT(rows[i].sequential_comm_share(), 1);
    if (i % 5 == 0) continue;
    EXPECT_LT(rows[i].time.bytes, rows[i - 1].time.bytes);
    EXPECT_LE(rows[i].time.fused, rows[i - 1].time.fused);
    EXPECT_LE(rows[i].against_sync, rows[i - 1].against_sync);
  }
  EXPECT_LT(rows[9].against_sync, rows[4].against_sync) << "a slow link gains more";
}

TEST(PredictDrops, ALinkWithoutLatencyHasTheClusters) {
  const double none[] = {0};
  const Link slow[] = {parse_link("10GB/s,1ms"), parse_link("10GB/s")}, plain[] = {parse_link("10GB/s")};
  const auto both = predict_drops(spec_70b(), slow, none);
  EXPECT_GT(both[0].time.fused, both[1].time.fused);
  EXPECT_EQ(both[1].time.fused, predict_drops(spec_70b(), plain, none)[0].time.fused)
      << "not that of the link before it";
}

TEST(PredictDrops, SharesAreChecked) {
  const Link links[] = {parse_link("10GB/s")};
  for (const double share : {-1.0, 101.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_NE(refusal([&] {
                predict_drops(spec_70b(), links, {&share, 1});
              }).find("use percentages from 0 to 100"),
              std::string::npos);
}

}  // namespace
}  // namespace weft
