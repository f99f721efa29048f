#include "weft/schedule/drawing.h"

#include <gtest/gtest.h>

#include "weft/schedule/build.h"
#include "weft/schedule/costs.h"

namespace weft::pipeline {
namespace {

// 1f1b of two stages: stage 0 runs ahead by one, and a backward is twice as long as a forward.
TEST(ScheduleDrawing, ShowsEachStageAsItWorks) {
  const auto plan = build(BuildOptions{.stages = 2, .micro_batches = 2});
  const Costs costs = uniform_costs({.stages = 2, .forward_s = 1, .backward_s = 2});
  const Compared one = compared(plan, costs);
  ASSERT_DOUBLE_EQ(one.timing.makespan_s, 9);
  const std::string text = drawing(one, 9, 18 + 7 + 11);  // two cells per second
  EXPECT_EQ(text,
            "  stage 0  aabb....AAAA..BBBB   67 %\n"
            "  stage 1  ..aaAAAAbbBBBB....   67 %\n")
      << text;
  const std::string key = drawing_key(one);
  EXPECT_NE(key.find("'.' idle"), std::string::npos);
  EXPECT_EQ(key.find("'='"), std::string::npos) << "nothing is said of what is not there";
}

}  // namespace
}  // namespace weft::pipeline
