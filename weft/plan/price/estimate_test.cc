#include "weft/plan/price/estimate.h"

#include <functional>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/plan/program.h"
#include "weft/plan/small_plans_test.h"

namespace weft {
namespace {

using testing::pair_plan;
using testing::shot_plan;

// Everything free but what a test sets.
Cluster free_cluster(int num_hosts, int ranks_per_host) {
  Cluster c = default_cluster(ranks_per_host);
  c.num_hosts = num_hosts;
  c.local = c.network = {.bytes_per_s = 1e18, .latency_s = 0};
  c.flops_per_s = c.read_bytes_per_s = c.write_bytes_per_s = c.tile_bytes_per_s = c.gather_bytes_per_s =
      c.gather_cached_bytes_per_s = c.cache_bytes_per_s = 1e18;
  c.cache_bytes = c.shared_cache_bytes = c.row_s = c.signal_s = c.step_s = c.run_s = 0;
  return c;
}

TEST(Estimate, ComputingAloneIsTheSumOfTheSteps) {
  Cluster c = free_cluster(1, 2);
  c.step_s = 1;
  const Estimate got = estimate(pair_plan(), c);
  EXPECT_NEAR(got.compute_seconds, 8, 1e-9);  // eight tiles a rank
  EXPECT_NEAR(got.seconds, 9, 1e-9);          // and the credit
  EXPECT_NEAR(got.exposed_seconds(), 1, 1e-9);
}

TEST(Estimate, ANetworkLinkIsPipelinedTileByTile) {
  Cluster c = free_cluster(2, 1);
  c.step_s = 1;
  c.network = {.bytes_per_s = 128.0 / 4, .latency_s = 0.5};  // a second a tile
  // Tiles leave at 1, 2, 3, 4 and are there a second and a half later; the own step starts at 4 and ends
  // at 8; the credit follows.
  const Estimate got = estimate(pair_plan(), c);
  EXPECT_NEAR(got.seconds, 9, 1e-9);
  EXPECT_NEAR(got.comm_seconds, 4, 1e-9);
  c.network.bytes_per_s = 128.0 / 40;  // ten seconds a tile: the last is there at 41.5, its sum a second later
  EXPECT_NEAR(estimate(pair_plan(), c).seconds, 43.5, 1e-9);
}

TEST(Estimate, WholeWaitsDoNotPipeline) {
  Plan plan = pair_plan();
  plan.counters[0] = {"full", 1, 4};
  plan.rules[0].signals[0].per = 0;
  plan.rules[1].waits[0] = {0, 0, 4};
  Cluster c = free_cluster(2, 1);
  c.step_s = 1;
  c.network = {.bytes_per_s = 128.0 / 40, .latency_s = 0.5};
  EXPECT_NEAR(estimate(plan, c).seconds, 41.5 + 4 + 1, 1e-9);
}

TEST(Estimate, StoresOnAHostAreMadeByTheProducer) {
  Cluster c = free_cluster(1, 2);
  c.local.bytes_per_s = 128;
  EXPECT_NEAR(estimate(pair_plan(), c).seconds, 1, 1e-9);
  EXPECT_NEAR(estimate(pair_plan(), c).comm_seconds, 1, 1e-9);
}

TEST(Estimate, RanksOfAHostShareItsLink) {
  Cluster c = free_cluster(1, 3);
  c.num_hosts = 3, c.ranks_per_host = 1;
  c.network.bytes_per_s = 256;
  EXPECT_NEAR(estimate(shot_plan(), c).seconds, 1, 1e-9);  // each sends 256 bytes, and receives as many
  c.num_hosts = 2, c.ranks_per_host = 2;
  EXPECT_NEAR(estimate(shot_plan(), c).comm_seconds, 1, 1e-9);  // two ranks send 128 each, the third 256
  EXPECT_NEAR(estimate(shot_plan(), c).seconds, 1, 1e-9);
}

TEST(Estimate, EveryPairOfHostsHasALinkInAFabricOfPairs) {
  Cluster c = free_cluster(3, 1);
  c.network = {.bytes_per_s = 128, .latency_s = 0.25};
  EXPECT_NEAR(estimate(shot_plan(), c).seconds, 2.25, 1e-9);  // 128 bytes to each of two others, one after another
  c.fabric = Fabric::pairs;
  EXPECT_NEAR(estimate(shot_plan(), c).seconds, 1.25, 1e-9);
  EXPECT_NEAR(estimate(shot_plan(), c).comm_seconds, 1, 1e-9);
  c.num_hosts = 2, c.ranks_per_host = 2;  // ranks 0 and 1 share the link to rank 2's host, and the link back
  EXPECT_NEAR(estimate(shot_plan(), c).seconds, 2.25, 1e-9);
}

TEST(Estimate, ReadingAndStoringOverlapByHalf) {
  Cluster c = free_cluster(1, 3);
  c.read_bytes_per_s = 128;  // the producer's own rows, then three slots
  EXPECT_NEAR(estimate(shot_plan(), c).seconds, 4, 1e-9);
  c.write_bytes_per_s = 128;  // half of one store under each
  EXPECT_NEAR(estimate(shot_plan(), c).seconds, 5, 1e-9);
  EXPECT_NEAR(estimate(shot_plan(), c).compute_seconds, 1.5, 1e-9);
}

TEST(Estimate, OnlyTilesKeptTogetherAreStoredAtThePeersRate) {
  Cluster c = free_cluster(1, 2);
  c.write_bytes_per_s = 128;
  Plan plan = pair_plan();
  EXPECT_NEAR(estimate(plan, c).seconds, 1, 1e-9);  // its own output alone
  plan.buffers[0].packing = {};
  EXPECT_NEAR(estimate(plan, c).seconds, 2, 1e-9);
}

TEST(Estimate, WhatFitsIntoTheCacheIsServedByIt) {
  Cluster c = free_cluster(1, 3);
  c.read_bytes_per_s = 128, c.cache_bytes_per_s = 1280;
  const double touched = 128 * (1 + 3 + 3 + 1);  // rows, their stores, the slots of the sum, and its store
  c.cache_bytes = touched;
  EXPECT_NEAR(estimate(shot_plan(), c).seconds, 0.1 + 0.3, 1e-9);
  c.cache_bytes = touched / 1.5;  // half of the way from the cache to memory: a read takes 0.55
  EXPECT_NEAR(estimate(shot_plan(), c).seconds, 0.55 + 1.65, 1e-9);
  c.cache_bytes = touched / 2;
  EXPECT_NEAR(estimate(shot_plan(), c).seconds, 1 + 3, 1e-9);
}

TEST(Estimate, GemmTilesAreMadeWhereTheyBelong) {
  Plan plan = pair_plan();
  plan.producers[0].kind = ProducerKind::gemm;
  plan.producers[0].k = 1;
  Cluster c = free_cluster(1, 2);
  c.write_bytes_per_s = 1, c.tile_bytes_per_s = 128;
  EXPECT_NEAR(estimate(plan, c).seconds, 2, 1e-9);  // one half to the peer, one kept
  EXPECT_NEAR(estimate(plan, c).compute_seconds, 2, 1e-9);
}

TEST(Estimate, AnAddendIsReadBesideTheStores) {
  Plan plan = pair_plan();
  plan.producers[0].kind = ProducerKind::gemm;
  plan.producers[0].k = 1;
  Cluster c = free_cluster(1, 2);
  c.tile_bytes_per_s = c.read_bytes_per_s = 128;
  const double without = estimate(plan, c).compute_seconds;
  plan.producers[0].addend = true;
  EXPECT_NEAR(estimate(plan, c).compute_seconds, without + 2 * 0.5, 1e-9);  // 256 bytes, half of it hidden
}

TEST(Estimate, AHintTellsHowManyRowsAreLookedUp) {
  Plan plan = pair_plan();
  plan.producers[0].kind = ProducerKind::embedding_bag;
  plan.producers[0].dim = 4, plan.producers[0].rows = 100;
  Cluster c = free_cluster(1, 2);
  c.gather_bytes_per_s = 256;
  EXPECT_NEAR(estimate(plan, c, {.pooled_rows = 3}).seconds, 3, 1e-9);
  EXPECT_NEAR(estimate(plan, c, {.pooled_rows = 12}).seconds, 12, 1e-9);
}

TEST(Estimate, TablesOfARankHaveTheirOwnBags) {
  Plan plan = pair_plan();
  plan.producers[0].kind = ProducerKind::embedding_bag;
  plan.producers[0].dim = 4, plan.producers[0].rows = 100;
  Cluster c = free_cluster(1, 2);
  c.gather_bytes_per_s = 256;
  const auto tables = num(plan.producers[0].columns(0) / 4);
  EstimateHint hint;
  hint.tables = {{tables, {3, 100}}, {tables, {5, 100}}};
  EXPECT_NEAR(estimate(plan, c, hint).seconds, 5, 1e-9);  // the slower rank
  c.gather_cached_bytes_per_s = 2560;
  c.shared_cache_bytes = 1e9;  // after a few runs all rows are there
  EXPECT_NEAR(estimate(plan, c, hint).seconds, 0.5, 1e-9);
  c.shared_cache_bytes = 300;  // a fifth of the rows of a table
  const double alike = estimate(plan, c, hint).seconds;
  EXPECT_GT(alike, 0.5);
  EXPECT_LT(alike, 5);
  hint.zipf = 1.2;
  EXPECT_LT(estimate(plan, c, hint).seconds, alike);
}

TEST(Estimate, AFasterClusterIsNeverSlower) {
  const std::vector<std::function<void(Cluster&)>> faster = {[](Cluster& c) { c.local.bytes_per_s *= 1.7; },
                                                             [](Cluster& c) { c.local.latency_s *= 0.3; },
                                                             [](Cluster& c) { c.network.bytes_per_s *= 3.1; },
                                                             [](Cluster& c) { c.network.latency_s *= 0.2; },
                                                             [](Cluster& c) { c.flops_per_s *= 2.3; },
                                                             [](Cluster& c) { c.read_bytes_per_s *= 1.9; },
                                                             [](Cluster& c) { c.write_bytes_per_s *= 2.9; },
                                                             [](Cluster& c) { c.gather_bytes_per_s *= 1.3; },
                                                             [](Cluster& c) { c.gather_cached_bytes_per_s *= 1.2; },
                                                             [](Cluster& c) { c.tile_bytes_per_s *= 1.3; },
                                                             [](Cluster& c) { c.cache_bytes *= 1.4; },
                                                             [](Cluster& c) { c.shared_cache_bytes *= 1.4; },
                                                             [](Cluster& c) { c.cache_bytes_per_s *= 1.4; },
                                                             [](Cluster& c) { c.row_s *= 0.4; },
                                                             [](Cluster& c) { c.run_s *= 0.4; },
                                                             [](Cluster& c) { c.signal_s *= 0.5; },
                                                             [](Cluster& c) { c.step_s *= 0.1; }};
  for (const Plan& plan : {pair_plan(), shot_plan()})
    for (const auto& [hosts, ranks] : {std::pair{1, 3}, std::pair{3, 1}, std::pair{2, 2}}) {
      Cluster c = default_cluster(ranks);
      c.num_hosts = hosts;
      c.cache_bytes = 100;
      c.fabric = hosts == 2 ? Fabric::nic : Fabric::pairs;
      double before = estimate(plan, c).seconds;
      for (int round = 0; round < 4; ++round)
        for (const auto& improve : faster) {
          improve(c);
          const double now = estimate(plan, c).seconds;
          EXPECT_LE(now, before * (1 + 1e-12));
          before = now;
        }
    }
}

TEST(Estimate, TilesWrittenOutCostTheSame) {
  Cluster c = default_cluster(1);
  c.num_hosts = 3;
  for (const Plan& plan : {pair_plan(), shot_plan()}) {
    const Estimate ranges = estimate(plan, c), tiles = estimate(written_out(plan, true), c);
    EXPECT_NEAR(ranges.seconds, tiles.seconds, 0.05 * ranges.seconds);
    EXPECT_NEAR(ranges.comm_seconds, tiles.comm_seconds, 1e-12);
    EXPECT_EQ(estimate(plan, c).seconds, ranges.seconds);
  }
}

TEST(Estimate, AClusterIsFittedToTheRanks) {
  EXPECT_EQ(fitted(default_cluster(2), 9).ranks_per_host, 9);
  Cluster c = default_cluster(2);
  c.num_hosts = 4;
  EXPECT_EQ(fitted(c, 9).ranks_per_host, 3);
  EXPECT_EQ(fitted(c, 5), c);
}

TEST(Estimate, APlanThatCannotRunHasNoPrice) {
  Plan plan = pair_plan();
  plan.rules[0].waits[0].lag = 0;
  EXPECT_THROW(estimate(plan, default_cluster()), Error);
}

}  // namespace
}  // namespace weft
