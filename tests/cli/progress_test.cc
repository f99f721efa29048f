#include "cli/progress.h"

#include <gtest/gtest.h>

namespace weft::cli {
namespace {

TEST(Progress, ALineHasWhatIsCountedAndTheTimeLeft) {
  EXPECT_EQ(progress_line({"sensitivity", "windows", 544, 2176, 60}),
            "sensitivity [######..................] 544/2176 windows, 3 min 0 s left");
  EXPECT_EQ(progress_line({"reshard", "", 3, 3, 10}), "reshard [########################] 3/3");
  EXPECT_EQ(progress_line({"search", "windows", 1, 100, 0.5}), "search [........................] 1/100 windows")
      << "too early to say";
  EXPECT_EQ(progress_line({"x", "", 0, 0, 5}), "x [........................] 0/0");
}

TEST(Progress, TimesAreInTwoUnits) {
  EXPECT_EQ(time_text(7.4), "7 s");
  EXPECT_EQ(time_text(200), "3 min 20 s");
  EXPECT_EQ(time_text(7500), "2 h 5 min");
}

}  // namespace
}  // namespace weft::cli
