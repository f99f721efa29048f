// Walks over shapes: sizes of collectives, the shapes of a sweep, tables of a workload.
#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/study/op_request.h"
#include "weft/study/walk/sizes.h"
#include "weft/study/walk/sweep.h"

namespace weft {
namespace {

TEST(Sizes, AreReadAsNcclTestsWritesThem) {
  EXPECT_EQ(parse_sizes("4K:64K"), (std::vector<std::int64_t>{4096, 16384, 65536}));
  EXPECT_EQ(parse_sizes("8:64:2"), (std::vector<std::int64_t>{8, 16, 32, 64}));
  EXPECT_EQ(parse_sizes("1M"), (std::vector<std::int64_t>{1 << 20}));
  EXPECT_EQ(parse_sizes("4K:64M").size(), 8u);
  for (const char* bad : {"", ":", "64K:4K", "1K:2K:1", "1K:2K:2:2", "x"}) EXPECT_THROW(parse_sizes(bad), Error) << bad;
}

TEST(Sizes, BusBandwidthCountsWhatALinkCarries) {
  struct Case {
    const char* op;
    double factor;
  };
  for (const Case& one : {Case{"ar", 1.5}, Case{"rs", 0.75}, Case{"ag", 0.75}, Case{"a2a", 0.75}, Case{"bcast", 1}}) {
    OpRequest flags;
    flags.op = one.op;
    flags.ranks = 4;
    set_size(parse_op(flags, 8).space.kind, 4, 1 << 20, &flags);
    const WireSize size = wire_size(parse_op(flags, 8));
    EXPECT_EQ(size.bytes, 1 << 20) << one.op;
    EXPECT_DOUBLE_EQ(size.bus_factor, one.factor) << one.op;
  }
}

TEST(Sweep, HasFortyShapesFromThinToFat) {
  for (const char* op : {"gemm-rs", "gemm-ar", "gemm-a2a", "ag-gemm", "embedding-a2a"}) {
    OpRequest flags;
    flags.op = op;
    const auto cells = sweep_cells(flags, 8);
    EXPECT_EQ(cells.size(), 40u) << op;
    EXPECT_EQ(cells.front().bytes, 4096);
    EXPECT_EQ(cells.back().bytes, 64 << 20);
  }
}

TEST(Workload, TablesOfDlrmAreDealtAndCapped) {
  OpRequest flags;
  flags.op = "embedding-a2a";
  flags.workload = "dlrm-v2";
  flags.rows = 5000;
  std::size_t one_hot = 0, multi_hot = 0;
  for (const auto& [which, tables] : {std::pair{"one-hot", &one_hot}, std::pair{"multi-hot", &multi_hot}}) {
    flags.tables_of = which;
    const OpSpec spec = parse_op(flags, 8);
    EXPECT_EQ(spec.producer.m, 2048);
    EXPECT_EQ(spec.producer.dim, 128);
    for (const auto& bags : spec.bags)
      for (const BagTable& bag : bags) {
        ++*tables;
        EXPECT_LE(bag.rows, 5000);
        EXPECT_EQ(bag.pooling == 1, flags.tables_of == "one-hot");
      }
  }
  EXPECT_EQ(one_hot + multi_hot, 26u);
}

}  // namespace
}  // namespace weft
