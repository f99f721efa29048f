// What has been proved is known, and any number of plans has bounded memory.
#include "weft/world/proved.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Proved, KnowsWhatWasAdded) {
  Proved proved(100);
  EXPECT_EQ(proved.find("a plan"), nullptr);
  proved.add("a plan", {1, 3});
  proved.add("a plan", {1, 3});
  ASSERT_NE(proved.find("a plan"), nullptr);
  EXPECT_EQ(*proved.find("a plan"), (std::vector{1, 3})) << "and which outputs are its own";
  EXPECT_EQ(proved.find("another"), nullptr);
  EXPECT_EQ(proved.bytes(), 6u) << "the same plan counts once";
}

TEST(Proved, ForgetsWhenThereIsTooMuchAndKeepsTheLatest) {
  Proved proved(100);
  for (int i = 0; i < 1000; ++i) {
    const std::string plan = std::string(20, 'x') + std::to_string(i);
    proved.add(plan, {});
    EXPECT_NE(proved.find(plan), nullptr);
    EXPECT_LE(proved.bytes(), 100u);
  }
  EXPECT_EQ(proved.find(std::string(20, 'x') + "0"), nullptr);
}

}  // namespace
}  // namespace weft
