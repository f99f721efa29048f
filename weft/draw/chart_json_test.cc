// Charts from JSON: the same pictures as from C++, and refusals that name value and remedy.
#include "weft/draw/chart_json.h"

#include <string>

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/draw/bar_chart.h"
#include "weft/draw/drawing_test.h"
#include "weft/draw/heat_map.h"
#include "weft/draw/line_chart.h"
#include "weft/io/fuzz_test.h"

namespace weft::draw {
namespace {

std::string refusal(const std::string& text) {
  try {
    chart_from_json(text, "chart.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_input);
    return error.what();
  }
  return "";
}

TEST(ChartJson, ALineChartIsTheOneOfCpp) {
  LineChart chart{.title = "hidden", .subtitle = "2 hosts", .width = 700, .height = 400};
  chart.x = {.label = "Mbit/s", .kind = AxisKind::log};
  chart.y = {.label = "part", .unit = Unit::percent, .min = 0.0};
  chart.series = {{"rs", {{50, 0.9, 0.8, 0.95}, {100, kNone}, {200, 0.7, kNone, kNone, "worst"}}, true, false}};
  chart.bands = {{0.9, 0.9, "wanted"}};
  EXPECT_EQ(chart_from_json(R"({"chart": "line", "title": "hidden", "subtitle": "2 hosts", "width": 700, "height": 400,
    "x": {"label": "Mbit/s", "kind": "log"}, "y": {"label": "part", "unit": "percent", "min": 0},
    "series": [{"name": "rs", "points": [[50, 0.9, 0.8, 0.95], [100, null], [200, 0.7]], "labels": ["", "", "worst"],
                "dashed": true, "marked": false}],
    "bands": [{"low": 0.9, "high": 0.9, "label": "wanted"}]})",
                            "chart.json"),
            line_chart(chart));
}

TEST(ChartJson, ABarChartIsTheOneOfCpp) {
  const BarChart chart{.title = "t",
                       .y = {.label = "ms"},
                       .series = {"a", "b"},
                       .groups = {{"x", {1, 2}}, {"y", {kNone, 3}}},
                       .bars = Bars::stacked,
                       .base = 0.5};
  EXPECT_EQ(chart_from_json(R"({"chart": "bar", "title": "t", "y": {"label": "ms"}, "series": ["a", "b"], "base": 0.5,
    "stacked": true, "groups": [{"name": "x", "values": [1, 2]}, {"name": "y", "values": [null, 3]}]})",
                            "chart.json"),
            bar_chart(chart));
}

TEST(ChartJson, AHeatMapIsTheOneOfCpp) {
  const HeatMap map{.grid = {"t", "s", "k", "m", {"1", "2"}, {"8"}},
                    .values = {1, 2.5},
                    .middle = 1,
                    .better = Better::less,
                    .decimals = 1,
                    .value_label = "times"};
  EXPECT_EQ(
      chart_from_json(R"({"chart": "heat", "title": "t", "subtitle": "s", "x": {"label": "k", "ticks": ["1", "2"]},
    "y": {"label": "m", "ticks": ["8"]}, "values": [1, 2.5], "middle": 1, "better": "less", "decimals": 1,
    "value_label": "times"})",
                      "chart.json"),
      heat_map(map));
}

TEST(ChartJson, RefusalsNameTheValueAndTheRemedy) {
  const auto has = [](const std::string& sentence, const std::string& part) {
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
    EXPECT_EQ(sentence.find("chart.json"), 0u) << sentence;
  };
  has(refusal(R"({"chart": "pie"})"), "chart \"pie\" is none; use line, bar or heat");
  has(refusal(R"({"chart": "line", "series": [], "titel": "t"})"), "titel");
  has(refusal(R"({"chart": "line", "series": [{"name": "a", "points": [[1]]}]})"), "[1] is neither");
  has(refusal(R"({"chart": "line", "series": [{"name": "a", "points": [["x", 1]]}]})"), "use numbers");
  has(refusal(R"({"chart": "line", "series": [{"name": "a", "points": [[1, 1]], "labels": []}]})"), "one per point");
  has(refusal(R"({"chart": "line", "series": [], "x": {"kind": "root"}})"), "use linear or log");
  has(refusal(R"({"chart": "line", "series": [], "x": {"unit": "hours"}})"), "use plain, bytes");
  has(refusal(R"({"chart": "line", "series": [], "x": {"kind": "log", "min": 0}})"), "above 0");
  has(refusal(R"({"chart": "line", "series": [], "x": {"min": 2, "max": 1}})"), "min below max");
  has(refusal(R"({"chart": "line", "series": [], "width": 5})"), "width");
  has(refusal(R"({"chart": "bar", "series": ["a"], "groups": [{"name": "g", "values": []}]})"), "one per series");
  has(refusal(R"({"chart": "bar", "series": [1], "groups": []})"), "use strings");
  has(refusal(R"({"chart": "heat", "x": {"ticks": ["1"]}, "y": {"ticks": ["1"]}, "values": []})"), "one per cell");
  has(refusal("["), "");
}

// Spoiled files are drawn or refused; what is drawn is a whole document.
TEST(ChartJson, MutantsAreDrawnOrRefused) {
  const std::string line = R"({"chart": "line", "title": "hidden", "x": {"label": "Mbit/s", "kind": "log"},
    "y": {"label": "part", "unit": "percent", "min": 0},
    "series": [{"name": "rs", "points": [[50, 0.9, 0.8, 0.95], [100, null]], "labels": ["", "worst"]}],
    "bands": [{"low": 0.9, "high": 0.9, "label": "wanted"}]})";
  const FuzzCounts counts = fuzz(line, 2000, [](const std::string& text) {
    const std::string svg = chart_from_json(text, "chart.json");
    EXPECT_EQ(xml_fault(svg), "") << text;
  });
  EXPECT_GT(counts.refused, 200);
  EXPECT_GT(counts.taken, 40);
}

}  // namespace
}  // namespace weft::draw
