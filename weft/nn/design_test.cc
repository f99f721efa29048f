// What a description leads to: rates of rotary positions by hand-made values, and who can use it.
#include "weft/nn/design.h"

#include <cmath>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/nn/block.h"

namespace weft {
namespace {

TEST(RotaryDesign, PlainRatesFallFromOneByEqualFactors) {
  const auto rates = rotary_rates({.theta = 16, .columns = 8}, 100);
  ASSERT_EQ(rates.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(rates[i], std::pow(0.5, i));
  EXPECT_EQ(rotary_rates({.kind = RotaryKind::dynamic, .theta = 16, .columns = 8, .factor = 3}, 100), rates);
}

// Fast pairs, with more than 4 turns in 64 positions, stay; slow ones, below one turn, are divided.
TEST(RotaryDesign, Llama3KeepsFastRatesAndDividesSlowOnes) {
  RotaryDesign design{.theta = 10000, .columns = 16};
  const auto plain = rotary_rates(design, 64);
  design.kind = RotaryKind::llama3, design.factor = 8, design.original_positions = 64;
  const auto rates = rotary_rates(design, 64);
  EXPECT_DOUBLE_EQ(rates[0], plain[0]);
  EXPECT_DOUBLE_EQ(rates[7], plain[7] / 8);
  for (std::size_t i = 0; i < rates.size(); ++i) EXPECT_LE(rates[i], plain[i] * (1 + 1e-12));
}

TEST(RotaryDesign, YarnDividesMoreTheSlowerAPair) {
  RotaryDesign design{.theta = 10000, .columns = 32};
  const auto plain = rotary_rates(design, 64);
  design.kind = RotaryKind::yarn, design.factor = 4, design.original_positions = 512;
  const auto rates = rotary_rates(design, 64);
  double before = 1;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double divided = plain[i] / rates[i];
    EXPECT_GE(divided, before - 1e-12);
    before = divided;
  }
  EXPECT_DOUBLE_EQ(rates[0], plain[0]);
  EXPECT_NEAR(before, 4, 1e-9);
}

TEST(RotaryDesign, LongropeHasOtherRatesForLongTexts) {
  RotaryDesign design{.kind = RotaryKind::longrope, .theta = 16, .columns = 4, .original_positions = 32};
  design.short_factors = {1, 2}, design.long_factors = {4, 8};
  EXPECT_EQ(rotary_rates(design, 32), (std::vector<double>{1, 0.25 / 2}));
  EXPECT_EQ(rotary_rates(design, 33), (std::vector<double>{0.25, 0.25 / 8}));
}

TEST(Design, BlocksMayDiffer) {
  Design design;
  design.rotaries.resize(2);
  design.rotaries[1].theta = 7;
  EXPECT_EQ(design.rotary_of(5), &design.rotaries[0]);
  design.blocks = {{.window = 3, .rotary = 1}, {.rotary = -1}};
  EXPECT_EQ(design.rotary_of(0)->theta, 7);
  EXPECT_EQ(design.rotary_of(1), nullptr);
  EXPECT_EQ(design.block(0).window, 3);
}

TEST(Design, SaysWhatCannotBeDroppedOrTrained) {
  const auto changed = [](const auto& change) {
    Design design;
    change(design);
    return design;
  };
  EXPECT_EQ(why_not_droppable({}), "");
  EXPECT_EQ(why_not_trainable({}), "");
  const Design droppable[] = {changed([](Design& d) { d.qk_norm = QkNorm::head; }),
                              changed([](Design& d) { d.residual_scale = 0.2; }),
                              changed([](Design& d) { d.activation = Activation::gelu_erf; }),
                              changed([](Design& d) { d.attention_cap = 30; }),
                              changed([](Design& d) { d.norm_adds_one = true; }),
                              changed([](Design& d) {
                                d.blocks = {{.window = 4}, {}};
                              })};
  for (const Design& design : droppable) {
    EXPECT_EQ(why_not_droppable(design), "");
    EXPECT_NE(why_not_trainable(design), "");
    BlockShape shape{.hidden = 8, .mlp = 8, .design = design};
    EXPECT_NE(refusal([&] { TransformerBlock(shape, nullptr, nullptr); }).find("cannot be trained"), std::string::npos);
  }
  EXPECT_NE(why_not_droppable(changed([](Design& d) { d.parallel = true; })), "");
  EXPECT_NE(why_not_droppable(changed([](Design& d) { d.norm_place = NormPlace::both; })), "");
  EXPECT_EQ(why_not_trainable(changed([](Design& d) { d.qkv_bias = true; })), "");
}

}  // namespace
}  // namespace weft
