// Whole drawings: well-formed whatever is drawn, the same bytes every time, right where it can be read off.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/draw/drawing_test.h"
#include "weft/draw/heat_map.h"
#include "weft/draw/line_chart.h"
#include "weft/draw/svg.h"
#include "weft/draw/theme.h"
#include "weft/draw/timeline.h"

namespace weft::draw {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

LineChart sweep() {
  LineChart chart{.title = "a < b & \"c\"", .subtitle = "machine, 2025-01-01"};
  chart.x = {.label = "size", .kind = AxisKind::log, .unit = Unit::bytes};
  chart.y = {.label = "time", .kind = AxisKind::log, .unit = Unit::seconds};
  chart.series = {{"fused", {{4096, 1e-6, 0.9e-6, 1.1e-6}, {65536, 1e-5, 0.9e-5, 1.2e-5}}},
                  {"mpi", {{4096, 2e-6}}, true}};
  chart.bands = {{1e-6, 2e-6, "A/A"}, {1e-5, 1e-5, "limit"}};
  return chart;
}

Timeline two_panels() {
  Timeline what{.title = "before and after", .kinds = {"gemm", "ring"}};
  const auto rank = [](double computes, double from, double to) {
    return std::vector<TimelineRow>{{"rank 0", Lane::compute, {{0, computes, 0}}},
                                    {"rank 0", Lane::link, {{from, to, 1}}}};
  };
  what.panels = {{"sequential", rank(0.06, 0.06, 0.1), {}}, {"fused", rank(0.06, 0.01, 0.06), {}}};
  return what;
}

TEST(Svg, EscapesTextAndRepairsWhatXmlForbids) {
  EXPECT_EQ(escaped("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
  EXPECT_EQ(escaped("\xc3\xa9 \xe2\x86\x92"), "\xc3\xa9 \xe2\x86\x92");
  EXPECT_EQ(escaped("a\x01\nb\xff\xc3"), "a? b??");
  Svg svg(10, 10, "]]> <script>");
  svg.text({0, 0}, "<script>alert(1)</script>");
  svg.open_group("left open \"");
  EXPECT_EQ(xml_fault(svg.str()), "");
  EXPECT_EQ(svg.str().find("<script>"), std::string::npos);
}

TEST(Svg, NumbersAreShortAndFinite) {
  EXPECT_EQ(number(1.0), "1");
  EXPECT_EQ(number(0.125), "0.12");
  EXPECT_EQ(number(-0.001), "0");
  EXPECT_EQ(number(kNone), "0");
  EXPECT_EQ(number(1e300), "1000000");
}

TEST(LineChart, IsWellFormedAndTheSameEveryTime) {
  expect_drawing(line_chart(sweep()));
  EXPECT_EQ(line_chart(sweep()), line_chart(sweep()));
  EXPECT_NE(line_chart(sweep()).find(">a &lt; b &amp; &quot;c&quot;<"), std::string::npos);
}

TEST(LineChart, OddValuesArePassedOver) {
  for (const AxisKind kind : {AxisKind::linear, AxisKind::log})
    for (const std::vector<Sample>& samples : std::vector<std::vector<Sample>>{{},
                                                                               {{1, 1}},
                                                                               {{0, 0}},
                                                                               {{2, 3}, {2, 3}},
                                                                               {{1, kNone}, {kNone, 1}},
                                                                               {{1, 1}, {2, kInf}, {3, -kInf}, {4, 2}},
                                                                               {{-1, -1}, {0, 0}, {1, 1}},
                                                                               {{1e-300, 1e300}, {1e300, 1e-300}},
                                                                               {{1, 1, kNone, 2}, {2, 1, 0, kInf}}}) {
      LineChart chart = sweep();
      chart.x.kind = chart.y.kind = kind;
      chart.bands = {{kNone, 1, "odd"}};
      chart.series = {{"odd", samples}};
      expect_drawing(line_chart(chart));
    }
  expect_drawing(line_chart({}));
}

TEST(LineChart, AGapBreaksTheLine) {
  LineChart chart;
  chart.series = {{"s", {{1, 1}, {2, 2}, {3, kNone}, {4, 4}, {5, 5}}}};
  const std::string svg = line_chart(chart);
  const std::size_t first = svg.find("<polyline");
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(svg.find("<polyline", first + 1), std::string::npos);
}

TEST(HeatMap, DrawsValuesAndRegimes) {
  HeatMap heat{
      .grid = {"t", "s", "x", "y", {"1", "2"}, {"a", "b"}}, .values = {1, 2, kNone}, .middle = 1, .value_label = "v"};
  expect_drawing(heat_map(heat));
  EXPECT_EQ(heat_map(heat), heat_map(heat));
  for (const std::vector<double>& values :
       std::vector<std::vector<double>>{{}, {0, 0, 0, 0}, {kNone, kInf}, {-1e300, 1e300, 0, 1}})
    for (double middle : {kNone, 0.0, 1.0}) {
      heat.values = values;
      heat.middle = middle;
      expect_drawing(heat_map(heat));
    }
  expect_drawing(heat_map({}));
  RegimeMap map{
      heat.grid, {"fused", "sequential"}, {{0, 0.5, "1.4x"}, {1, kNone, "1.0x"}, {7, 3, "?"}, {-1}, {0}, {0}}};
  expect_drawing(regime_map(map));
  EXPECT_EQ(regime_map(map), regime_map(map));
  EXPECT_NE(regime_map(map).find(">1.4x<"), std::string::npos);
  expect_drawing(regime_map({}));
}

TEST(Timeline, SumsWhatIsExposed) {
  const Timeline what = two_panels();
  EXPECT_DOUBLE_EQ(end_of(what.panels[0]), 0.1);
  EXPECT_NEAR(exposed_seconds(what.panels[0]), 0.04, 1e-12);
  EXPECT_EQ(exposed_seconds(what.panels[1]), 0);
  const std::string svg = timeline(what);
  expect_drawing(svg);
  EXPECT_EQ(svg, timeline(what));
  EXPECT_NE(svg.find("exposed communication 40 ms (40 %)"), std::string::npos);
  EXPECT_NE(svg.find("exposed communication 0 s (0 %)"), std::string::npos);
}

TEST(Timeline, ManyTilesAreDrawnAsFewShapes) {
  Timeline what = two_panels();
  auto& tiles = what.panels[0].rows[0].intervals;
  tiles.clear();
  for (int i = 100000; i-- > 0;) tiles.push_back({i * 1e-6, (i + 1) * 1e-6, 0});
  expect_drawing(timeline(what));
  EXPECT_LT(timeline(what).size(), 20000u);
}

TEST(Timeline, OddIntervalsArePassedOver) {
  Timeline what = two_panels();
  what.panels[0].rows[0].intervals = {{kNone, 1, 0}, {0, kInf, 0}, {2, 1, 0}, {1, 1, 0}, {-1, 0.5, 9}, {0, 0.1, -4}};
  expect_drawing(timeline(what));
  what.panels[1].rows.clear();
  expect_drawing(timeline(what));
  what.panels.clear();
  expect_drawing(timeline(what));
}

TEST(Theme, InkReadsOnItsColour) {
  EXPECT_EQ(ink_on("#ffffff"), "#1b1f24");
  EXPECT_EQ(ink_on("#0072b2"), "#ffffff");
  EXPECT_EQ(blended("#000000", "#ffffff", 0.5), "#808080");
  EXPECT_EQ(blended("#000000", "#ffffff", kNone), "#000000");
}

}  // namespace
}  // namespace weft::draw
