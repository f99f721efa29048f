// Labels that make way for each other, read off the pictures.
#include "weft/draw/labels.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/draw/bar_chart.h"
#include "weft/draw/drawing_test.h"
#include "weft/draw/gantt.h"
#include "weft/draw/heat_map.h"
#include "weft/draw/line_chart.h"

namespace weft::draw {
namespace {

std::vector<std::string> names(std::size_t count, const std::string& stem) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(stem + " " + std::to_string(i));
  return out;
}

TEST(Labels, LieLevelWhereThereIsRoomAndSlantWhereThereIsLess) {
  const auto degrees = [](double room, double first) {
    return slant_of({.names = names(9, "mega-gpt-2 fc2"), .first = first, .room = room}).degrees;
  };
  EXPECT_EQ(degrees(140, 140), 0);
  EXPECT_EQ(degrees(40, 140), 32);
  EXPECT_EQ(degrees(20, 140), 60);
  EXPECT_EQ(degrees(16, 140), 90);
  EXPECT_EQ(degrees(40, 60), 90);  // flatter, the first would leave the canvas
}

TEST(Labels, AreThinnedOutWhereEvenUprightOnesTouch) {
  const Columns many{.names = names(200, "case"), .first = 80, .room = 4};
  EXPECT_EQ(slant_of(many).degrees, 90);
  EXPECT_EQ(slant_of(many).stride, 4u);
  Columns sparse{.names = std::vector<std::string>(40), .first = 80, .room = 20};  // empty names leave their room
  for (std::size_t i = 0; i < 40; i += 4) sparse.names[i] = "case";
  EXPECT_EQ(slant_of(sparse).degrees, 0);
}

TEST(Labels, MoveApartAndStayInside) {
  EXPECT_EQ(apart({10, 50, 90}, 15, 0, 100), (std::vector<double>{10, 50, 90}));
  EXPECT_EQ(apart({50, 50, 52}, 15, 0, 100), (std::vector<double>{50, 65, 80}));
  EXPECT_EQ(apart({98, 99, 97}, 15, 0, 100), (std::vector<double>{85, 100, 70}));
  EXPECT_EQ(apart({5, 5, 5}, 15, 0, 20), (std::vector<double>{0, 15, 30}));  // no room: apart still
  EXPECT_TRUE(apart({}, 15, 0, 100).empty());
}

TEST(BarChart, NamesOfGroupsNeverTouch) {
  for (const std::size_t groups : {3, 12, 28, 60, 150}) {
    BarChart chart{.title = "t", .subtitle = "s", .y = {.label = "speedup"}, .series = {"t3", "ideal"}};
    for (const std::string& name : names(groups, "deepseek-v3-moe fc1_bwd")) chart.groups.push_back({name, {1.2, 1.5}});
    expect_drawing(bar_chart(chart));
    expect_texts_apart(bar_chart(chart));
  }
}

TEST(BarChart, StackedBarsAndOddValues) {
  BarChart chart{.series = {"a", "b"}, .groups = {{"x", {1, kNone}}, {"", {2, 3}}}, .bars = Bars::stacked};
  expect_drawing(bar_chart(chart));
  EXPECT_EQ(bar_chart(chart), bar_chart(chart));
  expect_drawing(bar_chart({}));
}

TEST(HeatMap, NamesOfColumnsAndRowsNeverTouch) {
  for (const std::size_t columns : {3, 9, 40}) {
    HeatMap map{.grid = {"t", "s", "link rate, one direction", "output", names(columns, "12.5 GB/s"),
                         names(4, "a long name of a row"), 600}};
    map.values.assign(columns * 4, 1.5);
    map.value_label = "times";
    expect_drawing(heat_map(map));
    expect_texts_apart(heat_map(map));
  }
}

TEST(LineChart, LabelsOfPointsMakeWay) {
  LineChart chart{.title = "time against loss", .x = {.label = "loss", .unit = Unit::percent}, .y = {.label = "ms"}};
  for (int i = 0; i < 6; ++i)
    chart.series.push_back({"", {{0.002 * i, 300.0 + i, kNone, kNone, "style " + std::to_string(i) + ", 300 ms"}}});
  expect_drawing(line_chart(chart));
  expect_texts_apart(line_chart(chart));
  EXPECT_EQ(line_chart(chart).find("<polyline"), std::string::npos);
}

TEST(LineChart, ALabelStaysBesideItsPointWhereNothingIsInTheWay) {
  LineChart chart{.x = {.min = 0.0, .max = 1.0}, .y = {.min = 0.0, .max = 100.0}};
  chart.series = {{"a", {{0.1, 50, kNone, kNone, "left"}}}, {"b", {{0.9, 50, kNone, kNone, "right"}}}};
  const std::vector<DrawnText> texts = texts_of(line_chart(chart));
  ASSERT_GE(texts.size(), 2u);
  EXPECT_EQ(texts[texts.size() - 2].text, "left");
  EXPECT_EQ(texts[texts.size() - 1].text, "right");
  EXPECT_EQ(texts[texts.size() - 2].y, texts[texts.size() - 1].y);
}

TEST(LineChart, WideTicksLeaveRoomForTheNameOfTheAxis) {
  LineChart chart{.title = "t", .x = {.label = "x"}, .y = {.label = "bytes", .unit = Unit::bytes}};
  chart.series = {{"s", {{1, 1e15}, {2, 1.3e15}}}};
  expect_texts_apart(line_chart(chart));
}

TEST(Gantt, LabelsOfLimitsNeverTouch) {
  for (const double second : {0.5, 0.98, 0.999, 1.0, 0.02}) {
    Gantt what{
        .title = "t", .rows = {{"host 0", "send", {{0, 1}}}}, .limits = {{1, "makespan"}, {second, "lower bound"}}};
    what.limits.push_back({0.01, "the latency of one link"});
    expect_drawing(gantt(what));
    expect_texts_apart(gantt(what));
  }
}

}  // namespace
}  // namespace weft::draw
