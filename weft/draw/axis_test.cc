// Round ticks, whose labels have room.
#include "weft/draw/axis.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/draw/svg.h"

namespace weft::draw {
namespace {

TEST(Axis, TicksAreRound) {
  const auto labels = [](const Axis& axis, double min, double max) {
    std::vector<std::string> out;
    const Ruler ruler(axis, {min, max}, 0, 1000, 6);
    for (const Tick& tick : ruler.ticks())
      if (!tick.label.empty()) out.push_back(tick.label);
    return out;
  };
  using Labels = std::vector<std::string>;
  EXPECT_EQ(labels({}, 0.03, 0.97), (Labels{"0", "0.2", "0.4", "0.6", "0.8", "1"}));
  EXPECT_EQ(labels({.kind = AxisKind::log}, 0.1, 10), (Labels{"0.1", "0.2", "0.5", "1", "2", "5", "10"}));
  EXPECT_EQ(labels({.kind = AxisKind::log}, 1, 1e6), (Labels{"1", "10", "100", "1000", "10k", "100k", "1M"}));
  EXPECT_EQ(labels({.unit = Unit::seconds}, 0, 0.1), (Labels{"0 s", "20 ms", "40 ms", "60 ms", "80 ms", "100 ms"}));
  EXPECT_EQ(labels({.kind = AxisKind::log, .unit = Unit::bytes}, 1024, 4096), (Labels{"1 KiB", "2 KiB", "4 KiB"}));
  EXPECT_EQ(labels({.unit = Unit::percent}, 0, 1), (Labels{"0 %", "20 %", "40 %", "60 %", "80 %", "100 %"}));
}

TEST(Axis, AnyRangeGivesTicksWithinThePixels) {
  for (const AxisKind kind : {AxisKind::linear, AxisKind::log})
    for (const Unit unit : {Unit::plain, Unit::bytes, Unit::seconds})
      for (const Range& range : {Range{}, Range{0, 0}, Range{5, 5}, Range{-3, -3}, Range{1e-300, 1e300},
                                 Range{-1e300, 1e300}, Range{1, 1 + 1e-14}, Range{1e-9, 2e-9}, Range{3, 3.1}}) {
        const Ruler ruler({.kind = kind, .unit = unit}, range, 0, 100, 8);
        EXPECT_GE(ruler.ticks().size(), 2u) << range.min << " " << range.max;
        EXPECT_LT(ruler.ticks().size(), 2100u);
        for (const Tick& tick : ruler.ticks()) {
          EXPECT_GE(ruler.at(tick.value), 0);
          EXPECT_LE(ruler.at(tick.value), 100);
        }
      }
}

// 1, 2 or 5 times a power of ten.
bool is_round(double value) {
  const double power = std::pow(10, std::floor(std::log10(std::abs(value)) + 1e-9)), digit = std::abs(value) / power;
  for (const double round : {1.0, 2.0, 5.0})
    if (std::abs(digit - round) < 1e-6) return true;
  return false;
}

TEST(Axis, StepsAreOneTwoOrFive) {
  for (double max = 0.013; max < 1e6; max *= 1.37)
    for (const int most : {3, 5, 8, 12}) {
      const auto linear = Ruler({}, {max / 7, max}, 0, 2000, most).ticks();
      for (std::size_t i = 1; i < linear.size(); ++i)
        EXPECT_TRUE(is_round(linear[i].value - linear[i - 1].value)) << linear[i].value << " " << linear[i - 1].value;
      const Axis log{.kind = AxisKind::log};
      const Ruler decades(log, {max / 50, max}, 0, 2000, most);
      for (const Tick& tick : decades.ticks()) EXPECT_TRUE(is_round(tick.value)) << tick.value;
    }
}

// Where a log axis has none of 1, 2 and 5 to show, it is ruled like a linear one.
TEST(Axis, ANarrowLogAxisHasTicks) {
  const Ruler ruler({.kind = AxisKind::log, .min = 3.1, .max = 3.9}, {}, 0, 600, 8);
  ASSERT_GE(ruler.ticks().size(), 4u);
  for (std::size_t i = 1; i < ruler.ticks().size(); ++i)
    EXPECT_TRUE(is_round(ruler.ticks()[i].value - ruler.ticks()[i - 1].value));
}

TEST(Axis, LabelsStayApartHoweverSmallTheRoom) {
  for (const AxisKind kind : {AxisKind::linear, AxisKind::log})
    for (const Unit unit : {Unit::plain, Unit::bytes, Unit::seconds, Unit::percent})
      for (const double pixels : {120.0, 200.0, 500.0})
        for (const Range& range : {Range{1e-4, 0.37}, Range{1, 64}, Range{3e6, 9e9}, Range{0.9123, 0.9171}}) {
          const Ruler across({.kind = kind, .unit = unit}, range, 50, 50 + pixels, 20);
          const Ruler up({.kind = kind, .unit = unit}, range, pixels, 0, 40);
          double right = -1e9, top = 1e9;
          for (const Tick& tick : across.ticks()) {
            if (tick.label.empty()) continue;
            const double half = text_width(tick.label, kTickSize) / 2;
            EXPECT_GE(across.at(tick.value) - half, right) << tick.label << " of " << range.min << " " << range.max;
            right = across.at(tick.value) + half;
          }
          for (const Tick& tick : up.ticks()) {
            if (tick.label.empty()) continue;
            EXPECT_LE(up.at(tick.value) + kTickSize / 2, top) << tick.label;
            top = up.at(tick.value) - kTickSize / 2;
          }
        }
}

}  // namespace
}  // namespace weft::draw
