#include "weft/study/op_spec.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"

namespace weft {
namespace {

TEST(OpName, PairsProducersAndSpaces) {
  const OpName rs = parse_op_name("gemm-rs"), gather = parse_op_name("ag_gemm"), alone = parse_op_name("all-reduce");
  EXPECT_EQ(rs.producer, ProducerKind::gemm);
  EXPECT_EQ(rs.space, SpaceKind::reduce_scatter);
  EXPECT_FALSE(rs.gathers);
  EXPECT_TRUE(gather.gathers);
  EXPECT_EQ(alone.producer, ProducerKind::copy);
  EXPECT_EQ(alone.space, SpaceKind::all_reduce);
  EXPECT_EQ(parse_op_name("gemv").space, SpaceKind::keep);
  for (const char* bad : {"", "gemm-", "-rs", "keep", "copy", "gemm-rs-ar"})
    EXPECT_THROW(parse_op_name(bad), Error) << bad;
}

TEST(OpSpec, PartsKeepTheShapeOfTheWhole) {
  OpSpec spec{.name = "ag-gemm", .producer = gemm({.m = 8, .n = 6, .k = 5}), .gathers = true, .ranks = 4};
  spec.space = all_gather(Mesh({{"tp", 4}}), "tp");
  const OpSpec made = producer_alone(spec), sent = collective_alone(spec);
  EXPECT_EQ(made.producer.m, 32) << "gathered rows are there already";
  EXPECT_EQ(made.space.kind, SpaceKind::keep);
  EXPECT_EQ(sent.producer.kind, ProducerKind::copy);
  EXPECT_EQ(sent.producer.n, 5) << "rows of x travel, not those of y";
  EXPECT_TRUE(has_collective(spec));
  EXPECT_FALSE(has_collective(made));
  EXPECT_FALSE(has_collective(sent)) << "it has no producer beside it";
  EXPECT_EQ(shape_text(spec), "8 x 6 x 5");
  EXPECT_EQ(shape_json(spec).dump(), R"({"m":8,"n":6,"k":5})");
}

TEST(OpSpec, OneShotTakesAnInboxOfEveryRanksOutput) {
  OpSpec spec{.producer = copy({.rows = 10, .cols = 4}), .ranks = 3};
  spec.space.kind = SpaceKind::all_reduce;
  EXPECT_EQ(one_shot_bytes(spec), 4.0 * 3 * 10 * 4);
  spec.space.kind = SpaceKind::reduce_scatter;
  EXPECT_EQ(one_shot_bytes(spec), 0);
}

}  // namespace
}  // namespace weft
