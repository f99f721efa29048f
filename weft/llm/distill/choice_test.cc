// Which blocks are dropped, repaired and grouped.
#include "weft/llm/distill/choice.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"

namespace weft {
namespace {

// One letter per block: . kept, d dropped as it is, r repaired, g repaired with grouped heads, ? grouped where better.
std::string letters(const DistillChoice& choice) {
  std::string out;
  for (std::size_t b = 0; b < choice.tasks.size(); ++b) {
    const BlockTask& task = choice.tasks[b];
    EXPECT_EQ(task.drop, choice.modes[b].drop);
    out += !task.drop                                    ? '.'
           : !task.repair                                ? 'd'
           : task.grouping == HeadGrouping::yes          ? 'g'
           : task.grouping == HeadGrouping::where_better ? '?'
                                                         : 'r';
  }
  return out;
}

SpdFile four_blocks() {
  SpdFile spd{.blocks = all_blocks(4, {.drop = true}), .sensitivity = {20, 1, 0.01, 1}, .path = "x.spd"};
  spd.blocks[3].drop = false;
  return spd;
}

TEST(DistillChoice, WithoutAFileAllBlocksAreRepaired) {
  EXPECT_EQ(letters(choose_blocks({}, 4, nullptr)), "????");
  EXPECT_EQ(letters(choose_blocks({.blocks = "1-2", .head_groups = "none"}, 4, nullptr)), ".rr.");
  EXPECT_EQ(letters(choose_blocks({.blocks = "1-2", .head_groups = "2-3"}, 4, nullptr)), ".rg.");
  EXPECT_EQ(letters(choose_blocks({.head_groups = "all"}, 4, nullptr)), "gggg");
}

TEST(DistillChoice, AFileSaysWhatIsDroppedAndItsSensitivitiesWhatIsRepaired) {
  const SpdFile spd = four_blocks();
  EXPECT_EQ(letters(choose_blocks({}, 4, &spd)), "grd.");
  EXPECT_EQ(letters(choose_blocks({.thresholds = {0.001, 0.5}}, 4, &spd)), "ggr.");
  SpdFile unknown = spd;
  unknown.sensitivity.clear();
  EXPECT_EQ(letters(choose_blocks({}, 4, &unknown)), "???.");
}

TEST(DistillChoice, AListIsAddedToWhatTheFileDrops) {
  const SpdFile spd = four_blocks();
  EXPECT_EQ(letters(choose_blocks({.blocks = "3"}, 4, &spd)), "dddr");
}

TEST(DistillChoice, WiresStayAsTheFileHasThem) {
  SpdFile spd = four_blocks();
  spd.blocks[0].wire = BlockWire::int8;
  EXPECT_EQ(choose_blocks({}, 4, &spd).modes[0], (BlockMode{true, BlockWire::int8}));
}

TEST(DistillChoice, NothingToRepairIsRefused) {
  SpdFile spd = four_blocks();
  spd.sensitivity = {0, 0, 0, 0};
  EXPECT_EQ(refusal([&] { choose_blocks({}, 4, &spd); }),
            "x.spd drops no block that needs repair; name some with --blocks");
  EXPECT_NE(refusal([] { choose_blocks({.head_groups = "x"}, 4, nullptr); }).find("--head-groups: \"x\" is no block"),
            std::string::npos);
}

}  // namespace
}  // namespace weft
