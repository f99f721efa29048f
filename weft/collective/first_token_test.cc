#include "weft/collective/first_token.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

FirstTokenSpec spec_of(double link_bytes_per_s) {
  FirstTokenSpec spec;
  Workload& w = spec.workload;
  w.name = "small", w.layers = 4;
  w.hidden = 2048, w.heads = 16, w.kv_heads = 16, w.head_dim = 128, w.ffn = 4096, w.gated = true, w.sequence = 1;
  w.batch = 1;
  spec.ranks = 4;
  spec.tokens = 512;
  spec.cluster = default_cluster(1);
  spec.cluster.network = {.bytes_per_s = link_bytes_per_s, .latency_s = 1e-6};
  spec.cluster.fabric = Fabric::nic;
  spec.cluster.flops_per_s = 1e13;
  for (double* rate : {&spec.cluster.read_bytes_per_s, &spec.cluster.write_bytes_per_s, &spec.cluster.tile_bytes_per_s})
    *rate = 1e12;
  return spec;
}

TEST(FirstToken, SendsWhatAnAllReduceOfTwoByteValuesMustAndHalfWhenAllIsDropped) {
  const FirstToken p = first_token(spec_of(1e10));
  const std::int64_t all_reduce = 2 * 3 * 512 / 4 * 2048 * 2;  // both halves, three quarters of the rows, 2 bytes
  EXPECT_EQ(p.sync.bytes, 2 * all_reduce);
  EXPECT_EQ(2 * p.total(4).bytes, p.total(0).bytes);
  FirstTokenSpec narrow = spec_of(1e10);
  narrow.wire = Dtype::int8;
  EXPECT_EQ(first_token(narrow).sync.bytes * 32, p.sync.bytes * 17);
}

// On a link that is all that matters, dropping one of two synchronisations halves the time, and int8 brings it to
// 17/32.
TEST(FirstToken, IsTheLinksTimeWhereTheLinkIsSlow) {
  const FirstToken p = first_token(spec_of(1e8));
  const double link = p.total(0).bytes / 1e8;
  EXPECT_NEAR(p.total(0).sequential / link, 1, 0.1);
  EXPECT_NEAR(p.total(4).fused / p.total(0).fused, 0.5, 0.05);
  FirstTokenSpec narrow = spec_of(1e8);
  narrow.wire = Dtype::int8;
  EXPECT_NEAR(first_token(narrow).total(0).fused / p.total(0).fused, 17.0 / 32, 0.06);
}

TEST(FirstToken, DroppingAndFasterLinksAndFusingNeverCost) {
  double before = 1e9;
  for (const double rate : {1e9, 1e10, 1e11, 1e12}) {
    const FirstToken p = first_token(spec_of(rate));
    for (std::int64_t dropped = 0; dropped <= 4; ++dropped) {
      const BlockTime t = p.total(dropped);
      EXPECT_LE(t.compute, t.fused * 1.02);
      EXPECT_LE(t.fused, t.sequential);
      if (dropped > 0) {
        EXPECT_LE(t.fused, p.total(dropped - 1).fused);
      }
    }
    EXPECT_LE(p.total(0).fused, before);
    before = p.total(0).fused;
  }
}

TEST(FirstToken, RefusesWhatItCannotPrice) {
  FirstTokenSpec spec = spec_of(1e10);
  spec.ranks = 3;
  EXPECT_THROW(first_token(spec), Error);
  spec = spec_of(1e10);
  spec.wire = Dtype::f32;
  EXPECT_THROW(first_token(spec), Error);
  spec = spec_of(1e10);
  spec.workload.kind = WorkloadKind::dlrm;
  EXPECT_THROW(first_token(spec), Error);
}

}  // namespace
}  // namespace weft
