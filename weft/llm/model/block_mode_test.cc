// Modes and lists of blocks as people write them.
#include "weft/llm/model/block_mode.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

std::string drops(std::string_view list, std::int64_t blocks) {
  std::string out;
  for (const bool dropped : parse_dropped(list, blocks, "--drop")) out += dropped ? 'x' : '.';
  return out;
}

TEST(BlockMode, EveryNameIsReadAndWrittenAlike) {
  for (const char* name : {"sync", "bf16", "int8", "drop", "drop+bf16", "drop+int8"})
    EXPECT_EQ(to_string(parse_block_mode(name)), name);
  EXPECT_EQ(refusal([] { parse_block_mode("int4"); }),
            "unknown mode \"int4\" of a block; use one of sync, bf16, int8, drop, drop+bf16, drop+int8");
}

TEST(BlockMode, AListOfModesHasEachOnceAndNoSync) {
  EXPECT_EQ(parse_modes("int8, drop,int8,sync"), (Modes{{false, BlockWire::int8}, {true, BlockWire::f32}}));
  EXPECT_TRUE(parse_modes("sync").empty());
  EXPECT_NE(refusal([] { parse_modes("drop,"); }), "did not throw");
}

TEST(BlockMode, BlocksAreListedInOrderEachOnce) {
  EXPECT_EQ(parse_blocks("5,0,3-5, 3", 8, "--blocks"), (std::vector<int>{0, 3, 4, 5}));
  EXPECT_EQ(parse_blocks("all", 3, "--blocks"), (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(parse_blocks("none", 3, "--blocks").empty());
}

TEST(BlockMode, WhatIsNoBlockIsNamedWithItsFlag) {
  for (const char* text : {"", "3", "x", "-1", "0,", "1-3", "1-", "99999999999999999999", "0x1", "1.0"}) {
    const std::string said = refusal([&] { parse_blocks(text, 3, "--blocks"); });
    EXPECT_EQ(said.find("--blocks: "), 0u) << text << ": " << said;
    EXPECT_NE(said.find("is no block; use numbers from 0 to 2"), std::string::npos) << text << ": " << said;
  }
  EXPECT_EQ(refusal([] { parse_blocks("2-1", 3, "--blocks"); }), "--blocks: \"2-1\" runs backwards; turn it round");
}

TEST(BlockMode, AShareDropsTheLastBlocks) {
  EXPECT_EQ(drops("50%", 6), "...xxx");
  EXPECT_EQ(drops("0%", 6), "......");
  EXPECT_EQ(drops("100%", 6), "xxxxxx");
  EXPECT_EQ(drops("25%", 6), "....xx") << "rounded to the nearest number of blocks";
  EXPECT_EQ(drops("1,4-5", 6), ".x..xx");
  for (const char* text : {"101%", "-1%", "%", "x%", "1.5%"})
    EXPECT_NE(refusal([&] { parse_dropped(text, 6, "--drop"); }).find("use 0% to 100%"), std::string::npos) << text;
}

TEST(BlockMode, ASummaryHasTheMostFrequentFirst) {
  Modes modes = all_blocks(5, {.drop = true});
  modes[1] = {};
  modes[2] = {false, BlockWire::int8}, modes[3] = {false, BlockWire::int8};
  EXPECT_EQ(summary(modes), "2 int8, 2 drop, 1 sync");
  EXPECT_EQ(num_dropped(modes), 2);
}

}  // namespace
}  // namespace weft
