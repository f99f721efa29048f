#include "weft/study/hidden.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

Overlap usual() {
  return {.compute_us = 100, .comm_us = 50, .comm_cpu_us = 10, .sequential_us = 160, .fused_us = 120, .aa_band = 0.02};
}

TEST(Hidden, IsThePartOfTheGainThatTheIdealWouldHave) {
  const Hidden hidden = hidden_part(usual());
  EXPECT_DOUBLE_EQ(*hidden.part, 40.0 / 50);
  EXPECT_EQ(hidden.note, "");
  Overlap slower = usual();
  slower.fused_us = 170;
  EXPECT_DOUBLE_EQ(*hidden_part(slower).part, -0.2);
}

TEST(Hidden, IdealIsBoundByTheLongerPart) {
  Overlap bound = usual();
  bound.comm_us = 140;
  EXPECT_DOUBLE_EQ(*bound.ideal_us(), 140);
  EXPECT_DOUBLE_EQ(*usual().ideal_us(), 110);
}

TEST(Hidden, AboveAllOfItIsAMeasuringErrorAndSaysWhichPart) {
  Overlap times = usual();
  times.fused_us = 95, times.aa_band = 0.01;
  Hidden hidden = hidden_part(times);
  EXPECT_FALSE(hidden.part);
  EXPECT_EQ(hidden.note, "not measurable: compute alone came out slower than fused");
  times.aa_band = 0.2;  // the difference is noise, and still no figure is more than everything
  hidden = hidden_part(times);
  EXPECT_FALSE(hidden.part);
  EXPECT_TRUE(hidden.note.starts_with("not measurable: 1.30 of")) << hidden.note;
  times = usual();
  times.comm_us = 140, times.fused_us = 130;
  EXPECT_EQ(hidden_part(times).note, "not measurable: the collective alone came out slower than fused");
}

TEST(Hidden, ALittleAboveOneIsNoise) {
  Overlap times = usual();
  times.fused_us = 108;
  EXPECT_DOUBLE_EQ(*hidden_part(times).part, 1.04);
}

TEST(Hidden, SaysWhyThereIsNothingToHide) {
  Overlap times = usual();
  times.comm_us = 9;
  EXPECT_TRUE(hidden_part(times).note.starts_with("little to hide"));
  times = usual();
  times.sequential_us = 112;
  EXPECT_TRUE(hidden_part(times).note.starts_with("no room to hide"));
  times = usual();
  times.comm_cpu_us = {};
  EXPECT_TRUE(hidden_part(times).note.starts_with("not measurable"));
  times.sequential_us = {};  // a collective alone: nothing to overlap, nothing to explain
  EXPECT_FALSE(hidden_part(times).part);
  EXPECT_EQ(hidden_part(times).note, "");
}

TEST(Hidden, ComputeIsDoubtfulOnlyBeyondTheBand) {
  Overlap times = usual();
  EXPECT_FALSE(compute_is_doubtful(times));
  times.fused_us = 99;
  EXPECT_FALSE(compute_is_doubtful(times)) << "within 2 %";
  times.fused_us = 97;
  EXPECT_TRUE(compute_is_doubtful(times));
  times.sequential_us = {};
  EXPECT_FALSE(compute_is_doubtful(times)) << "nothing is judged by it";
}

}  // namespace
}  // namespace weft
