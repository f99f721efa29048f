// What ranks hold of a reshard covers each tensor, and a wrong element is found and named.
#include "weft/study/reshard/shards.h"

#include <cstring>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/reshard/seats.h"
#include "weft/study/reshard/planned.h"

namespace weft {
namespace {

// Two ranks hold rows, two others want columns.
Reshard small_reshard() {
  const Mesh mesh = hosts_by_devices(1, 2);
  return one_tensor({6, 10}, Dtype::i32, mesh, "S1,R", mesh, "R,S1");
}

TEST(RankShards, AreWhereTheLayoutsSay) {
  const Reshard reshard = small_reshard();
  std::int64_t held = 0, wanted = 0;
  for (int rank = 0; rank < reshard.num_ranks; ++rank) {
    const RankShards shards(reshard, rank);
    const ShardBytes bytes = shard_bytes(reshard, rank);
    ASSERT_EQ(shards.inputs().size(), 1u);
    EXPECT_EQ(shards.inputs()[0] == nullptr, bytes.source == 0) << "rank " << rank;
    EXPECT_EQ(shards.destinations().empty(), bytes.destination == 0);
    EXPECT_EQ(shards.destination_elements() * 4, bytes.destination);
    held += bytes.source, wanted += bytes.destination;
  }
  EXPECT_EQ(held, 6 * 10 * 4);
  EXPECT_EQ(wanted, 6 * 10 * 4);
}

TEST(RankShards, AnElementThatIsWrongIsNamed) {
  const Reshard reshard = small_reshard();
  RankShards sources(reshard, 1);
  sources.fill(3);
  const auto* rows = static_cast<const std::int32_t*>(sources.inputs()[0]);  // rows 3 to 5
  RankShards other(reshard, 0);
  other.fill(3);
  const auto* first_rows = static_cast<const std::int32_t*>(other.inputs()[0]);
  const RankShards receiver(reshard, 3);  // columns 5 to 9
  ASSERT_EQ(receiver.destinations().size(), 1u);
  const DestinationShard& shard = receiver.destinations()[0];
  std::vector<std::int32_t> got(30);
  for (int row = 0; row < 6; ++row)
    for (int col = 0; col < 5; ++col)
      got[at(row * 5 + col)] = row < 3 ? first_rows[row * 10 + 5 + col] : rows[(row - 3) * 10 + 5 + col];
  EXPECT_EQ(receiver.check(shard, 3, got.data()), std::nullopt);
  EXPECT_TRUE(receiver.check(shard, 4, got.data()).has_value()) << "values of another round";
  std::swap(got[7], got[8]);
  const auto wrong = receiver.check(shard, 3, got.data());
  ASSERT_TRUE(wrong.has_value());
  EXPECT_NE(wrong->find("is wrong on rank 3: element [1, 7]"), std::string::npos) << *wrong;
  EXPECT_NE(wrong->find("2 of 30 elements"), std::string::npos) << *wrong;
}

TEST(PlannedReshard, IsPricedCheckedAndProved) {
  const Reshard reshard = small_reshard();
  const Network network = one_nic_a_host(2, 2, {.bytes_per_s = 1.25e9, .latency_s = 10e-6}, {.bytes_per_s = 1e10});
  for (const Strategy strategy : {Strategy::automatic, Strategy::broadcast, Strategy::send_recv}) {
    ReshardOptions options;
    options.schedule.strategy = strategy;
    const PlannedReshard planned = plan_reshard(reshard, network, options);
    EXPECT_EQ(planned.problems, std::vector<std::string>{});
    EXPECT_EQ(planned.tasks.empty(), false);
    EXPECT_GT(planned.predicted_s(), 0);
    EXPECT_GE(planned.plan_ms, 0);
    const auto proved = prove_reshard(reshard, network, options, planned);
    ASSERT_TRUE(proved.has_value());
    EXPECT_TRUE(proved->verdict.ok());
    EXPECT_EQ(proved->plan.num_ranks, reshard.num_ranks);
  }
}

}  // namespace
}  // namespace weft
