// What has been proved is known, and any number of plans has bounded memory.
#include "weft/world/proved.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Proved, KnowsWhatWasAdded) {
  Proved proved(100);
  EXPECT_FALSE(proved.has("a plan"));
  proved.add("a plan");
  proved.add("a plan");
  EXPECT_TRUE(proved.has("a plan"));
  EXPECT_FALSE(proved.has("another"));
  EXPECT_EQ(proved.bytes(), 6u) << "the same plan counts once";
}

TEST(Proved, ForgetsWhenThereIsTooMuchAndKeepsTheLatest) {
  Proved proved(100);
  for (int i = 0; i < 1000; ++i) {
    const std::string plan = std::string(20, 'x') + std::to_string(i);
    proved.add(plan);
    EXPECT_TRUE(proved.has(plan));
    EXPECT_LE(proved.bytes(), 100u);
  }
  EXPECT_FALSE(proved.has(std::string(20, 'x') + "0"));
}

}  // namespace
}  // namespace weft
