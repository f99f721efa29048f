// Tensors moved for real by ranks that are threads: every strategy, ranks that hold nothing, and an element that is
// wrong.
#include "weft/study/reshard/move.h"

#include <atomic>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/reshard/seats.h"
#include "weft/study/reshard/shards.h"

namespace weft {
namespace {

const Link kWireLink{.bytes_per_s = 1.25e9, .latency_s = 10e-6}, kHostLink{.bytes_per_s = 1e10};

Reshard rows_to_columns() {
  const Mesh mesh = hosts_by_devices(1, 2);
  return one_tensor({24, 10}, Dtype::i32, mesh, "S1,R", mesh, "R,S1");
}
Network two_hosts() { return one_nic_a_host(2, 2, kWireLink, kHostLink); }

TEST(ReshardMove, EveryStrategyIsTimedAndChecked) {
  World::local(4, [](World& world) {
    MoveOptions options;
    options.strategies = {Strategy::automatic, Strategy::broadcast, Strategy::send_recv};
    options.rounds = 2;
    options.again = true;
    const MoveResult result = move_tensors(world, rows_to_columns(), two_hosts(), options);
    ASSERT_TRUE(result.ok);
    ASSERT_EQ(result.moves.size(), 3u);
    EXPECT_EQ(result.elements, 24 * 10);
    for (const StrategyMove& move : result.moves) {
      EXPECT_GT(move.time_us, 0);
      EXPECT_GT(move.planned.predicted_s(), 0);
      EXPECT_GT(move.staging_bytes, 0);  // counters
      EXPECT_LT(move.staging_bytes, 1 << 20);
    }
    EXPECT_EQ(result.moves[2].planned.schedule.strategy, Strategy::send_recv);
  });
}

TEST(ReshardMove, RanksWithoutASeatHoldNothing) {
  const Reshard reshard = one_tensor({8, 8}, Dtype::f32, hosts_by_devices(1, 1), "R,R", hosts_by_devices(1, 2), "S1,R");
  const Network network = one_nic_a_host(std::vector<int>{0, 1, 1}, kWireLink, kHostLink);
  WorldOptions paced;
  paced.link = kWireLink;
  paced.ranks_per_host = seats_per_host(network);
  World::local(
      4,
      [&](World& world) {
        const Seated seats = seated(reshard, network, world.hosts());
        EXPECT_EQ(shard_bytes(seats.reshard, 1).source, 0);
        const MoveResult result = move_tensors(world, seats.reshard, seats.network, {.rounds = 1});
        EXPECT_TRUE(result.ok);
        EXPECT_EQ(result.elements, 64);
      },
      paced);
}

// The rank that finds it throws; the others may still be told of its end as a peer's failure, or return.
TEST(ReshardMove, AWrongElementIsNamedByTheRankThatFoundIt) {
  std::atomic<int> fine{0};
  try {
    World::local(4, [&](World& world) {
      MoveOptions options{.rounds = 1};
      options.spoil = world.rank() == 3;
      if (move_tensors(world, rows_to_columns(), two_hosts(), options).ok) ++fine;
    });
    FAIL() << "nobody found it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::internal) << error.what();
    EXPECT_EQ(error.rank(), 3);
    EXPECT_NE(std::string(error.what()).find("is wrong on rank 3: element ["), std::string::npos) << error.what();
  }
  EXPECT_EQ(fine, 0);
}

}  // namespace
}  // namespace weft
