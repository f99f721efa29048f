// What a schedule is priced at: never below its makespan, and dearer as anything it needs gets dearer.
#include "weft/reshard/build/price.h"

#include <gtest/gtest.h>

#include "weft/reshard/cases_test.h"

namespace weft::resharding {
namespace {

struct Asked {
  Instance instance;
  std::vector<Task> all;
  Schedule planned;

  explicit Asked(std::uint64_t seed) : instance(random_case(seed)), all(tasks(instance.reshard)) {
    const Strategy strategies[] = {Strategy::broadcast, Strategy::send_recv, Strategy::local_allgather};
    planned = schedule(all, instance.network, {.strategy = strategies[seed % 3]});
  }
  double priced(const Tiling& tiling) const { return price(planned, all, instance.reshard, instance.network, tiling); }
};

TEST(ReshardPrice, IsAtLeastTheMakespan) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Asked asked(seed);
    EXPECT_GE(asked.priced({}), asked.planned.makespan_s * (1 - 1e-9)) << seed;
  }
}

TEST(ReshardPrice, GrowsWithWhatMessagesAndLatencyCost) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Asked asked(seed);
    const Tiling cheap{.tile_bytes = 1 << 16, .message_s = 1e-6}, dear{.tile_bytes = 1 << 16, .message_s = 50e-6};
    const double before = asked.priced(cheap);
    EXPECT_GE(asked.priced(dear), before);
    asked.instance.network.latency_s = asked.instance.network.local.latency_s = 1e-3;
    EXPECT_GE(asked.priced(cheap), before);
  }
}

TEST(ReshardPrice, RanksThatShareFewerCoresTakeLonger) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Asked asked(seed);
    const auto on = [&](double cores) { return asked.priced({.message_s = 20e-6, .cores = cores}); };
    EXPECT_GE(on(1), on(2));
    EXPECT_GE(on(2), on(16));
    EXPECT_GE(on(1e9), on(0) * (1 - 1e-9)) << "0: each rank has its own";
  }
}

// One hop, one tile, nothing beside: the bytes, a latency, a message to send and one to be there.
TEST(ReshardPrice, OneHopIsCountedByHand) {
  const Mesh one = hosts_by_devices(1, 1);
  const Reshard reshard = one_tensor({250}, Dtype::f32, one, "R", one, "R");
  const Network network = one_nic_a_host(hosts_side_by_side(one, one), {1e6, 5e-3}, {1e9, 0});
  const std::vector<Task> all = tasks(reshard);
  const Schedule planned = schedule(all, network);
  ASSERT_DOUBLE_EQ(planned.makespan_s, 1e-3);
  const double seconds = price(planned, all, reshard, network, {.tile_bytes = 1000, .message_s = 1e-4});
  EXPECT_NEAR(seconds, 1e-3 + 1e-3 + 5e-3 + 1e-4, 1e-9);
  const double halves = price(planned, all, reshard, network, {.tile_bytes = 500, .message_s = 1e-4});
  EXPECT_NEAR(halves, seconds - 0.5e-3, 1e-9) << "the last tile is half as long";
}

}  // namespace
}  // namespace weft::resharding
