#include "weft/plan/price/traffic.h"

#include <gtest/gtest.h>

#include "weft/plan/small_plans_test.h"

namespace weft {
namespace {

TEST(Traffic, CountsAPairByHand) {
  const PlanTraffic got = traffic(testing::pair_plan());
  // Four rows of eight f32 each way; a signal for each of four tiles and one credit; four tiles used here.
  const Traffic each{.bytes_to_peers = 128, .bytes_kept = 128, .signals_to_peers = 5, .local_signals = 4};
  ASSERT_EQ(got.ranks.size(), 2u);
  EXPECT_EQ(got.ranks[0], each);
  EXPECT_EQ(got.ranks[1], each);
  EXPECT_EQ(got.total.bytes_to_peers, 256);
  EXPECT_EQ(got.total.local_signals, 8);
}

TEST(Traffic, CountsOneShotByHand) {
  const Traffic each{
      .bytes_to_peers = 2 * 128, .bytes_kept = 128 + 128, .signals_to_peers = 2 * 4 + 2, .local_signals = 4 + 4};
  for (const Traffic& rank : traffic(testing::shot_plan()).ranks) EXPECT_EQ(rank, each);
}

TEST(Traffic, ANarrowWireHalvesTheBytes) {
  Plan plan = testing::pair_plan();
  plan.buffers[0].dtype = Dtype::bf16;
  EXPECT_EQ(traffic(plan).ranks[0].bytes_to_peers, 64);
  EXPECT_EQ(traffic(plan).ranks[0].bytes_kept, 128);
}

// A copy from bf16 to f32 is widened where it lands; a sum is made where its sources are.
TEST(Traffic, CopiesOfNarrowValuesTravelNarrow) {
  Plan plan = testing::pair_plan();
  plan.buffers[0].dtype = Dtype::bf16;
  Rule& rule = plan.rules[1];
  rule.kind = ActionKind::trigger;
  rule.targets[0].rank = testing::e("1 - r");
  EXPECT_EQ(traffic(plan).ranks[0].bytes_to_peers, 64 + 64);
  EXPECT_EQ(host_traffic(plan, 1)[0].bytes_out, 64 + 64);
  rule.sources.push_back(rule.sources[0]);
  EXPECT_EQ(traffic(plan).ranks[0].bytes_to_peers, 64 + 128);
}

TEST(Traffic, TileByTileIsTheSame) {
  for (const Plan& plan : {testing::pair_plan(), testing::shot_plan()}) {
    const PlanTraffic ranges = traffic(plan), tiles = traffic(written_out(plan, true));
    EXPECT_EQ(ranges.total, tiles.total);
    EXPECT_EQ(ranges.ranks, tiles.ranks);
  }
}

TEST(Traffic, EmptyChunksMoveNothing) {
  Plan plan = testing::pair_plan();
  plan.rules[0].box = plan.rules[0].targets[0].box = testing::rows("0", "0");
  EXPECT_EQ(traffic(plan).ranks[0].bytes_to_peers, 0);
  EXPECT_EQ(traffic(plan).ranks[0].signals_to_peers, 1);
}

}  // namespace
}  // namespace weft
