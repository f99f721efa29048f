#include "weft/sim/step/scale.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

namespace weft::netsim {
namespace {

Setting small_setting() {
  Setting out;
  Workload& w = out.workload;
  w.name = "small", w.batch = 1;
  w.hidden = 512, w.layers = 4, w.heads = 8, w.kv_heads = 8, w.head_dim = 64, w.ffn = 2048, w.sequence = 2048;
  out.training = {.tp = 4, .pp = 2, .dp = 2, .micro_batches = 4};
  out.options.flops_per_s = 100e12, out.options.bytes_per_s = 2e12;
  out.topology = rails_topology(4, 4, {100e9, 500e-9}, {25e9, 1e-6});
  return out;
}

Setting table_setting(int ranks) {
  Setting out = small_setting();
  Workload& w = out.workload;
  w = {};
  w.name = "tables", w.kind = WorkloadKind::dlrm, w.dtype = Dtype::f32, w.dim = 32;
  w.rows.assign(num(2 * ranks), 1000), w.multi_hot.assign(num(2 * ranks), 10);
  w.bottom = {64, 64, 64, 64, 64, 32}, w.top = {64, 64, 64, 64, 64}, w.cross_rank = 1, w.interaction = 64;
  out.training = {.dp = ranks, .micro_batch = 4096};
  out.topology = torus_topology({4, ranks / 4}, {{25e9, 700e-9}, {25e9, 700e-9}});
  return out;
}

TEST(Scale, ReplicasGrowAndWorkOfARankStays) {
  const Setting whole = small_setting();
  double compute = 0;
  for (const int ranks : {8, 16, 64, 256}) {
    const Setting one = at_ranks(whole, ranks);
    EXPECT_EQ(one.training.ranks(), ranks);
    EXPECT_EQ(one.topology.num_ranks, ranks);
    const Styles styles = run_styles(one);
    if (compute > 0) {
      EXPECT_NEAR(styles.compute_s, compute, compute * 1e-3);
    }
    compute = styles.compute_s;
    EXPECT_LT(styles.both_s, styles.bulk_s);
    EXPECT_EQ(styles.simulated, 2);
  }
  EXPECT_EQ(at_ranks(whole, 4).training.pp, 1);
  EXPECT_NE(refusal([&] { at_ranks(whole, 6); }).find("use a multiple of 4"), std::string::npos);
}

TEST(Scale, TablesPerRankStay) {
  const Setting whole = table_setting(16);
  EXPECT_EQ(at_ranks(whole, 64).workload.rows.size(), 128u);
  EXPECT_EQ(at_ranks(whole, 64).topology.dims, (std::vector<int>{8, 8}));
  const Styles styles = run_styles(whole);
  EXPECT_LE(styles.both_s, styles.forward_s);
  EXPECT_LT(styles.forward_s, styles.bulk_s);
}

TEST(Scale, SlowerPartsMakeNoStepFaster) {
  for (const Setting& whole : {small_setting(), table_setting(16)}) {
    const double bulk = run_styles(whole).bulk_s;
    const std::vector<Variation> all = free_parameters(whole, 0.2);
    EXPECT_GE(all.size(), 10u);
    for (const Variation& one : all) {
      const Styles styles = run_styles(one.setting);
      const bool is_rate =
          one.what.find("arithmetic") == 0 || one.what.find("memory") == 0 || one.what.find("links") == 0;
      const bool less = one.what.find("-20 %") != std::string::npos;
      if (is_rate == less) {
        EXPECT_GE(styles.bulk_s, bulk) << one.what;
      } else {
        EXPECT_LE(styles.bulk_s, bulk) << one.what;
      }
    }
  }
}

TEST(Scale, UnknownsAreThoseOfTables) {
  const std::vector<Variation> all = unknowns_of_dlrm(table_setting(16));
  EXPECT_EQ(all.size(), 14u);
  for (const Variation& one : all) EXPECT_GT(run_styles(one.setting).bulk_s, 0) << one.what;
  EXPECT_NE(refusal([] { unknowns_of_dlrm(small_setting()); }).find("has no tables"), std::string::npos);
}

TEST(Topology, ResizedKeepsItsKindAndLinks) {
  const Link a{1e9, 1e-6}, b{2e9, 2e-6};
  const Topology rails = resized(rails_topology(4, 8, a, b), 128);
  EXPECT_EQ(rails.wires, rails_topology(16, 8, a, b).wires);
  EXPECT_EQ(resized(torus_topology({16, 8}, {a, b}), 1024).dims, (std::vector<int>{32, 32}));
  EXPECT_EQ(resized(torus_topology({16, 8}, {a, b}), 8).dims, (std::vector<int>{2, 4}));
  const ClosOptions clos{.ranks = 64, .ranks_per_leaf = 16, .num_spines = 8, .link = a, .uplink = b};
  ClosOptions larger = clos;
  larger.ranks = 256;
  EXPECT_EQ(resized(clos_topology(clos), 256).wires, clos_topology(larger).wires);
  EXPECT_EQ(resized(switch_topology(4, a), 8).wires, switch_topology(8, a).wires);
  EXPECT_NE(refusal([&] { resized(torus_topology({16, 8}, {a, b}), 96); }).find("never has 96"), std::string::npos);
  EXPECT_NE(refusal([&] {
              resized(graph_topology({"x", "y"}, {}, {{"x", "y", a}, {"y", "x", a}}), 4);
            }).find("has no other size"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::netsim
