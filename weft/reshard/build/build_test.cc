// From a schedule to a plan: what is refused, how finely chunks are cut, and what `auto` takes.
#include "weft/reshard/build/build.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/refusal_test.h"
#include "weft/plan/program.h"
#include "weft/plan/text/print.h"
#include "weft/plan/verify/verify.h"
#include "weft/reshard/build/nodes.h"
#include "weft/reshard/build/tile.h"

namespace weft {
namespace {

const Link kLink{.bytes_per_s = 1.25e9, .latency_s = 20e-6}, kLocal{.bytes_per_s = 1e10};

// One rank to `hosts` hosts of `devices`, replicated.
Reshard one_to_many(std::int64_t elements, int hosts, int devices) {
  return one_tensor({elements}, Dtype::f32, hosts_by_devices(1, 1), "R", hosts_by_devices(hosts, devices), "R");
}
Network network_for(int hosts, int devices) {
  std::vector<int> host_of{0};
  for (int rank = 0; rank < hosts * devices; ++rank) host_of.push_back(1 + rank / devices);
  return one_nic_a_host(host_of, kLink, kLocal);
}

ReshardOptions with(Strategy strategy) {
  ReshardOptions options;
  options.schedule.strategy = strategy;
  return options;
}

Strategy chosen(const Reshard& reshard, const Network& network, std::vector<Priced>* prices) {
  ReshardOptions options;
  options.cores = 2;
  return choose(reshard, tasks(reshard), network, options, prices).strategy;
}

TEST(ReshardBuild, LargeTensorsGoByBroadcastAndTinyOnesDoNot) {
  std::vector<Priced> prices;
  EXPECT_EQ(chosen(one_to_many(1 << 21, 4, 2), network_for(4, 2), &prices), Strategy::broadcast);
  ASSERT_EQ(prices.size(), 4u);
  const auto price = [&](Strategy strategy) {
    return std::find_if(prices.begin(), prices.end(), [&](const Priced& p) { return p.strategy == strategy; })->seconds;
  };
  EXPECT_GT(price(Strategy::send_recv), 6 * price(Strategy::broadcast));
  prices.clear();
  EXPECT_NE(chosen(one_to_many(64, 4, 2), network_for(4, 2), &prices), Strategy::broadcast);
  EXPECT_LT(price(Strategy::send_recv), price(Strategy::broadcast));
}

TEST(ReshardBuild, AutoStopsWhereNothingCanBeMuchBetter) {
  std::vector<Priced> prices;
  EXPECT_EQ(chosen(one_to_many(std::int64_t{1} << 28, 4, 2), network_for(4, 2), &prices), Strategy::broadcast);
  EXPECT_EQ(prices.size(), 1u);
}

TEST(ReshardBuild, AutoSaysWhatEachStrategyWouldTake) {
  const Plan plan = build(one_to_many(1 << 20, 2, 2), network_for(2, 2), with(Strategy::automatic));
  for (const char* word : {"broadcast", "send_recv", "local_allgather", "global_allgather", "cheapest", "ms"})
    EXPECT_NE(plan.why.find(word), std::string::npos) << plan.why;
}

TEST(ReshardBuild, ARelayReadsWhereItsTilesArrive) {
  const Plan plan = build(one_to_many(1 << 20, 3, 2), network_for(3, 2), with(Strategy::broadcast));
  const Verdict verdict = verify(plan);
  ASSERT_TRUE(verdict.ok()) << verdict.problems.front();
  const Expander expander(plan);
  std::int64_t relays = 0;
  for (int rank = 1; rank < plan.num_ranks; ++rank) {
    const Program program = expander.program(rank);
    for (const Action& action : program.actions)
      for (const Piece& source : program.sources(action)) {
        EXPECT_EQ(plan.buffers[source.buffer].name, "dst0");
        EXPECT_GT(action.lanes, 8);  // a pipeline
        ++relays;
      }
  }
  EXPECT_GE(relays, 3);
}

TEST(ReshardBuild, APlanForManyRanksPrintsOnAPage) {
  const Mesh mesh = hosts_by_devices(8, 8);
  const Reshard reshard = one_tensor({512, 512, 64}, Dtype::bf16, mesh, "R,S01,R", mesh, "S01,R,R");
  const Plan plan = build(reshard, one_nic_a_host(16, 8, kLink, kLocal), with(Strategy::broadcast));
  EXPECT_TRUE(verify(plan).ok());
  const std::string page = print(plan);
  EXPECT_LT(std::count(page.begin(), page.end(), '\n'), 60) << page;
}

TEST(ReshardBuild, RefusesSchedulesThatAreNotOfItsTasks) {
  const Reshard reshard = one_to_many(100, 2, 1);  // rank 0 to ranks 1 and 2
  const Network network = network_for(2, 1);
  Schedule good;
  good.chunks = {{0, {{0, 100}}, 400, 0, {{0, 1}, {1, 2}}, 0, 1}};
  good.makespan_s = 1;
  EXPECT_TRUE(verify(build(reshard, good, network)).ok());
  const auto refused = [&](auto&& change, const char* word) {
    Schedule bad = good;
    change(bad.chunks[0]);
    EXPECT_NE(refusal([&] { build(reshard, bad, network); }).find(word), std::string::npos) << word;
  };
  refused([](Chunk& c) { c.hops = {{0, 1}}; }, "to rank 2");
  refused([](Chunk& c) { c.hops = {{2, 1}, {0, 2}}; }, "from rank 2");
  refused([](Chunk& c) { c.hops = {{0, 1}, {0, 1}}; }, "once");
  refused([](Chunk& c) { c.root = 1; }, "does not hold");
  refused([](Chunk& c) { c.box = Box{{0, 101}}; }, "does not hold");
  refused([](Chunk& c) { c.box = Box{{0, 99}}; }, "99 of the 100");
  refused([](Chunk& c) { c.task = 1; }, "task 1");
  const std::string few = refusal([&] { build(reshard, one_nic_a_host(2, 1, kLink, kLocal)); });
  EXPECT_NE(few.find("has 2 ranks, but the reshard is for 3"), std::string::npos) << few;
}

TEST(ReshardTile, CutsDimensionsZeroAndOneEvenly) {
  using resharding::tile_for;
  using Tile = std::array<std::int64_t, 2>;
  EXPECT_EQ(tile_for(Box{{0, 100}}, Dtype::f32, 160), (Tile{34, 0}));
  EXPECT_EQ(tile_for(Box{{0, 100}, {0, 8}}, Dtype::f32, 320), (Tile{10, 0}));
  EXPECT_EQ(tile_for(Box{{0, 4}, {0, 1000}}, Dtype::u8, 300), (Tile{1, 250}));
  EXPECT_EQ(tile_for(Box{{0, 4}, {0, 10}, {0, 100}}, Dtype::i64, 4000), (Tile{1, 5}));
  EXPECT_EQ(tile_for(Box{{0, 4}, {0, 10}, {0, 100}}, Dtype::i64, 100), (Tile{1, 1}));
}

TEST(ReshardTile, LongChainsTakeSmallerTilesAndDearMessagesLarger) {
  using resharding::best_tile_bytes;
  const resharding::TileQuestion few{1 << 26, 2, 1e9, 5e-6}, many{1 << 26, 16, 1e9, 5e-6},
      dear{1 << 26, 16, 1e9, 50e-6};
  const resharding::TileQuestion fast{std::int64_t{1} << 33, 1, 5e10, 20e-6};
  EXPECT_GE(best_tile_bytes(fast), 8'000'000);  // 160 us on the wire, 20 us for its message
  EXPECT_LT(best_tile_bytes(many), best_tile_bytes(few));
  EXPECT_LT(best_tile_bytes(many), best_tile_bytes(dear));
}

}  // namespace
}  // namespace weft
