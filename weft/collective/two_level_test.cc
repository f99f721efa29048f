// Two-level routes are proved on hosts of every shape, cross the network with no byte more than needed, are chosen
// where a link is slow, and refuse what does not fill hosts.
#include "weft/collective/two_level.h"

#include <algorithm>
#include <ctime>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/collective/build.h"
#include "weft/plan/price/estimate.h"
#include "weft/plan/price/traffic.h"
#include "weft/plan/program.h"
#include "weft/plan/verify/verify.h"

namespace weft {
namespace {

constexpr SpaceKind kKinds[] = {SpaceKind::reduce_scatter, SpaceKind::all_reduce, SpaceKind::all_gather,
                                SpaceKind::broadcast};

struct Hosts {
  int num_hosts, ranks_per_host;
  int num_ranks() const { return num_hosts * ranks_per_host; }
};
constexpr Hosts kHosts[] = {{2, 2}, {4, 2}, {2, 4}, {3, 2}, {2, 3}, {3, 3}};

Cluster cluster_of(const Hosts& hosts) {
  Cluster cluster = default_cluster(hosts.ranks_per_host);
  cluster.num_hosts = hosts.num_hosts;
  return cluster;
}

Space space_of(SpaceKind kind, const Hosts& hosts, SpaceOptions options = {}) {
  options.route = Route::two_level;
  return {kind, Mesh({{"tp", hosts.num_ranks()}}), "tp", std::move(options)};
}

void expect_proved_two_level(const Plan& plan, const std::string& what) {
  const Verdict ranges = verify(plan);
  ASSERT_TRUE(ranges.ok()) << what << ": " << ranges.problems.front();
  const Verdict tiles = verify(written_out(plan, true));
  ASSERT_TRUE(tiles.ok()) << what << ", tile by tile: " << tiles.problems.front();
}

TEST(TwoLevel, IsProvedOnEveryHostsAndShape) {
  struct Shape {
    std::int64_t m, n;
    std::array<std::int64_t, 2> tile;
  };
  for (const Hosts& hosts : kHosts)
    for (const Shape& s : {Shape{32, 8, {2, 4}}, {23, 10, {2, 4}}, {13, 7, {3, 5}}, {3, 5, {2, 2}}, {1, 1, {1, 1}}}) {
      const Producer p = gemm({.m = s.m, .n = s.n, .k = 3, .tile = s.tile, .bias = true});
      const auto what = [&](std::string_view op) {
        return fmt::format("{} of {} x {}, {} hosts of {}", op, s.m, s.n, hosts.num_hosts, hosts.ranks_per_host);
      };
      for (const SpaceKind kind : kKinds)
        expect_proved_two_level(build(p, space_of(kind, hosts), cluster_of(hosts)), what(to_string(kind)));
      expect_proved_two_level(build(space_of(SpaceKind::all_gather, hosts), p, cluster_of(hosts)), what("gather gemm"));
    }
}

TEST(TwoLevel, OptionsKeepPlansProved) {
  const Hosts hosts{3, 2};
  for (const int slices : {1, 2, 3, 7}) {
    const Producer p = gemm({.m = 37, .n = 9, .k = 2, .tile = {2, 4}, .residual = true});
    expect_proved_two_level(build(p, space_of(SpaceKind::all_reduce, hosts, {.slices = slices}), cluster_of(hosts)),
                            fmt::format("{} slices", slices));
  }
  expect_proved_two_level(build(gemv({.n = 40, .k = 4, .tile = {1, 8}}),
                                space_of(SpaceKind::reduce_scatter, hosts, {.wire = Dtype::bf16}), cluster_of(hosts)),
                          "bf16");
  for (int root = 0; root < hosts.num_ranks(); ++root)
    expect_proved_two_level(build(copy({.rows = 9, .cols = 4, .tile = {2, 2}}),
                                  space_of(SpaceKind::broadcast, hosts, {.root = root}), cluster_of(hosts)),
                            fmt::format("root {}", root));
}

// Each host sends and receives every byte that it must, once: B bytes of output, of one rank where ranks are summed.
TEST(TwoLevel, CrossesOncePerHost) {
  for (const Hosts& hosts : {Hosts{2, 2}, {4, 2}, {2, 4}}) {
    const std::int64_t h = hosts.num_hosts, bytes = 64 * 32 * 4, all = bytes * hosts.num_ranks();
    const Producer p = gemm({.m = 64, .n = 32, .k = 32, .tile = {4, 8}});
    const auto each = [&](const Plan& plan, std::int64_t wanted) {
      for (const HostTraffic& host : host_traffic(plan, hosts.ranks_per_host))
        EXPECT_EQ(host, (HostTraffic{wanted, wanted})) << plan.name << ", " << h << " hosts";
    };
    const auto built = [&](SpaceKind kind) { return build(p, space_of(kind, hosts), cluster_of(hosts)); };
    each(built(SpaceKind::reduce_scatter), bytes * (h - 1) / h);
    each(built(SpaceKind::all_reduce), 2 * bytes * (h - 1) / h);
    each(built(SpaceKind::all_gather), all * (h - 1) / h);
    each(build(space_of(SpaceKind::all_gather, hosts), p, cluster_of(hosts)), all * (h - 1) / h);  // k = n
    std::int64_t sent = 0;
    for (const HostTraffic& host : host_traffic(built(SpaceKind::broadcast), hosts.ranks_per_host)) {
      EXPECT_LE(host.bytes_in, bytes);
      sent += host.bytes_out;
    }
    EXPECT_EQ(sent, (h - 1) * bytes);
  }
}

TEST(TwoLevel, FlatRoutesCrossMoreOften) {
  const Hosts hosts{2, 2};
  const std::int64_t bytes = 64 * 32 * 4;
  const auto out = [&](SpaceKind kind, Route route) {
    Space space = space_of(kind, hosts);
    space.options.route = route;
    return host_traffic(build(gemm({.m = 64, .n = 32, .k = 8, .tile = {4, 8}}), space), 2)[0].bytes_out;
  };
  EXPECT_EQ(out(SpaceKind::reduce_scatter, Route::direct), bytes);
  EXPECT_EQ(out(SpaceKind::reduce_scatter, Route::ring), bytes * 3 / 4);
  EXPECT_EQ(out(SpaceKind::all_reduce, Route::two_shot), 2 * bytes);
  EXPECT_EQ(out(SpaceKind::all_gather, Route::direct), 4 * bytes);
}

TEST(TwoLevel, AnOrderOfItsOwnIsOwedAndSaid) {
  const Hosts hosts{2, 2};
  const Producer p = gemm({.m = 16, .n = 8, .k = 3, .tile = {2, 4}});
  Plan plan = build(p, space_of(SpaceKind::all_reduce, hosts), cluster_of(hosts));
  EXPECT_EQ(plan.why, "two_level: as asked; sums go host by host, so bits differ from flat routes");
  EXPECT_EQ(plan.sum, Sum::listed);
  plan.owed[0].ranks_per_host = 1;
  const Verdict flat = verify(plan);
  ASSERT_FALSE(flat.ok());
  EXPECT_NE(flat.problems[0].find("but gets"), std::string::npos) << flat.problems[0];
  plan.owed[0].ranks_per_host = 4;
  EXPECT_FALSE(verify(plan).ok());
  plan.owed[0].ranks_per_host = 1;
  plan.sum = Sum::any;
  EXPECT_TRUE(verify(plan).ok());
}

TEST(TwoLevel, IsChosenWhereTheNetworkIsSlow) {
  Cluster cluster = cluster_of({2, 2});
  cluster.network = {.bytes_per_s = 125e6, .latency_s = 20e-6};
  for (const Fabric fabric : {Fabric::nic, Fabric::pairs}) {
    cluster.fabric = fabric;
    for (const SpaceKind kind : {SpaceKind::reduce_scatter, SpaceKind::all_reduce, SpaceKind::all_gather}) {
      Space space = space_of(kind, {2, 2});
      space.options.route = Route::automatic;
      const Plan plan = build(gemm({.m = 256, .n = 1024, .k = 256}), space, cluster);
      EXPECT_EQ(plan.why.rfind("two_level: estimated", 0), 0u) << plan.why;
    }
  }
  Space large = space_of(SpaceKind::all_reduce, {12, 8});  // priced by a twin
  large.options.route = Route::automatic;
  cluster.num_hosts = 12, cluster.ranks_per_host = 8;
  const Plan plan = build(gemm({.m = 1536, .n = 1024, .k = 256}), large, cluster);
  EXPECT_EQ(plan.why.rfind("two_level: estimated", 0), 0u) << plan.why;
}

TEST(TwoLevel, IsNoRouteOfOneHostOrOfHostsThatAreNotFull) {
  const auto known = [](int num_ranks, int ranks_per_host) {
    Cluster cluster = default_cluster(ranks_per_host);
    cluster.num_hosts = (num_ranks + ranks_per_host - 1) / ranks_per_host;
    const auto all = routes(space_of(SpaceKind::all_reduce, {1, num_ranks}), cluster);
    return std::find(all.begin(), all.end(), Route::two_level) != all.end();
  };
  EXPECT_EQ(routes(keep(), cluster_of({2, 2})), std::vector<Route>{Route::local});
  EXPECT_TRUE(known(4, 2));
  EXPECT_FALSE(known(4, 4));
  EXPECT_FALSE(known(4, 1));
  EXPECT_FALSE(known(5, 2));
  const Producer p = gemm({.m = 8, .n = 8, .k = 8});
  EXPECT_EQ(refusal([&] {
              build(p, space_of(SpaceKind::all_reduce, {1, 5}), cluster_of({3, 2}));
            }),
            "route two_level is for several hosts with the same number of ranks each, 2 or more, but 5 ranks are on "
            "hosts of 2; use auto");
  EXPECT_EQ(refusal([&] {
              build(p, space_of(SpaceKind::all_to_all, {2, 2}), cluster_of({2, 2}));
            }),
            "all_to_all has no route two_level: no two ranks of a host need the same rows; use auto, direct or staged");
}

// As in build_test.cc: 0.3 s on 64 ranks, 5 s on 1024, of processor time; twice that is let pass.
TEST(TwoLevel, ProofsOfManyRanksTakeSeconds) {
#ifdef WEFT_SANITIZED
  GTEST_SKIP() << "sanitizers slow it down";
#endif
  const Producer p = gemm({.m = 16384, .n = 16384, .k = 1024, .tile = {128, 128}});
  for (const Hosts& hosts : {Hosts{8, 8}, {128, 8}})
    for (const SpaceKind kind : kKinds) {
      const auto begin = std::clock();
      EXPECT_TRUE(verify(build(p, space_of(kind, hosts), cluster_of(hosts))).ok());
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      EXPECT_LT(seconds, hosts.num_ranks() == 64 ? 0.6 : 10.0);
      std::printf("%5d ranks  %-15s %8.1f ms\n", hosts.num_ranks(), std::string(to_string(kind)).c_str(),
                  seconds * 1e3);
    }
}

}  // namespace
}  // namespace weft
