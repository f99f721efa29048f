#include "weft/draw/chart_json.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/draw/bar_chart.h"
#include "weft/draw/heat_map.h"
#include "weft/draw/line_chart.h"

namespace weft::draw {
namespace {

constexpr double kLeastSide = 100, kMostSide = 10'000;  // pixels
constexpr double kMostValue = 1e300;
constexpr std::int64_t kMostDecimals = 9;

std::string text_or(const Json& object, std::string_view key, std::string_view where, std::string otherwise = {}) {
  return find_field(object, key, where) ? get_string(object, key, where) : otherwise;
}

bool flag_or(const Json& object, std::string_view key, std::string_view where, bool otherwise) {
  return find_field(object, key, where) ? get_bool(object, key, where) : otherwise;
}

double side_or(const Json& object, std::string_view key, std::string_view where, double otherwise) {
  return find_field(object, key, where) ? get_double(object, key, where, kLeastSide, kMostSide) : otherwise;
}

// An element of an array: a number, or null for none.
double number_of(const Json& value, std::string_view key, std::string_view where) {
  if (value.is_null()) return kNone;
  if (!value.is_number()) bad_input("{}: \"{}\" holds {}; use numbers, or null for none", where, key, value.dump());
  return value.get<double>();
}

std::vector<double> numbers(const Json& object, std::string_view key, std::string_view where) {
  std::vector<double> out;
  for (const Json& value : get_array(object, key, where)) out.push_back(number_of(value, key, where));
  return out;
}

std::vector<std::string> texts(const Json& object, std::string_view key, std::string_view where) {
  std::vector<std::string> out;
  for (const Json& value : get_array(object, key, where)) {
    if (!value.is_string()) bad_input("{}: \"{}\" holds {}; use strings", where, key, value.dump());
    out.push_back(value.get<std::string>());
  }
  return out;
}

std::optional<double> end_of_axis(const Json& axis, std::string_view key, std::string_view where, bool log) {
  if (!find_field(axis, key, where)) return {};
  const double value = get_double(axis, key, where, -kMostValue, kMostValue);
  if (log && value <= 0) bad_input("{}: \"{}\" is {}; a log axis lies above 0", where, key, value);
  return value;
}

Axis axis_of(const Json& chart, std::string_view key, std::string_view where) {
  if (!find_field(chart, key, where)) return {};
  const Json& axis = get_object(chart, key, where);
  check_fields(axis, {"label", "kind", "unit", "min", "max"}, where);
  Axis out{.label = text_or(axis, "label", where)};
  const std::string kind = text_or(axis, "kind", where, "linear"), unit = text_or(axis, "unit", where, "plain");
  if (kind != "linear" && kind != "log") bad_input("{}: axis kind \"{}\" is none; use linear or log", where, kind);
  out.kind = kind == "log" ? AxisKind::log : AxisKind::linear;
  if (unit == "bytes")
    out.unit = Unit::bytes;
  else if (unit == "seconds")
    out.unit = Unit::seconds;
  else if (unit == "percent")
    out.unit = Unit::percent;
  else if (unit != "plain")
    bad_input("{}: unit \"{}\" is none; use plain, bytes, seconds or percent", where, unit);
  out.min = end_of_axis(axis, "min", where, out.kind == AxisKind::log);
  out.max = end_of_axis(axis, "max", where, out.kind == AxisKind::log);
  if (out.min && out.max && *out.min >= *out.max)
    bad_input("{}: the axis from {} to {} is empty; give min below max", where, *out.min, *out.max);
  return out;
}

Series series_of(const Json& given, std::string_view where) {
  check_fields(given, {"name", "points", "labels", "dashed", "marked"}, where);
  Series out{.name = get_string(given, "name", where)};
  out.dashed = flag_or(given, "dashed", where, false);
  out.marked = flag_or(given, "marked", where, true);
  for (const Json& point : get_array(given, "points", where)) {
    if (!point.is_array() || (point.size() != 2 && point.size() != 4))
      bad_input("{}: the point {} is neither [x, y] nor [x, y, low, high]", where, point.dump());
    Sample sample{number_of(point[0], "points", where), number_of(point[1], "points", where)};
    if (point.size() == 4)
      sample.low = number_of(point[2], "points", where), sample.high = number_of(point[3], "points", where);
    out.samples.push_back(std::move(sample));
  }
  if (!find_field(given, "labels", where)) return out;
  const std::vector<std::string> labels = texts(given, "labels", where);
  if (labels.size() != out.samples.size())
    bad_input("{}: {} labels for {} points; give one per point", where, labels.size(), out.samples.size());
  for (std::size_t i = 0; i < labels.size(); ++i) out.samples[i].label = labels[i];
  return out;
}

std::string line_of(const Json& given, std::string_view where) {
  check_fields(given, {"chart", "title", "subtitle", "width", "height", "x", "y", "series", "bands"}, where);
  LineChart chart{.title = text_or(given, "title", where), .subtitle = text_or(given, "subtitle", where)};
  chart.x = axis_of(given, "x", where);
  chart.y = axis_of(given, "y", where);
  for (const Json& one : get_array(given, "series", where)) chart.series.push_back(series_of(one, where));
  if (find_field(given, "bands", where))
    for (const Json& one : get_array(given, "bands", where)) {
      check_fields(one, {"low", "high", "label"}, where);
      chart.bands.push_back({get_double(one, "low", where, -kMostValue, kMostValue),
                             get_double(one, "high", where, -kMostValue, kMostValue), text_or(one, "label", where)});
    }
  chart.width = side_or(given, "width", where, chart.width);
  chart.height = side_or(given, "height", where, chart.height);
  return line_chart(chart);
}

std::string bar_of(const Json& given, std::string_view where) {
  check_fields(given, {"chart", "title", "subtitle", "width", "height", "y", "series", "groups", "stacked", "base"},
               where);
  BarChart chart{.title = text_or(given, "title", where), .subtitle = text_or(given, "subtitle", where)};
  chart.y = axis_of(given, "y", where);
  chart.series = texts(given, "series", where);
  for (const Json& one : get_array(given, "groups", where)) {
    check_fields(one, {"name", "values"}, where);
    chart.groups.push_back({text_or(one, "name", where), numbers(one, "values", where)});
    if (chart.groups.back().values.size() != chart.series.size())
      bad_input("{}: group \"{}\" has {} values for {} series; give one per series", where, chart.groups.back().name,
                chart.groups.back().values.size(), chart.series.size());
  }
  if (flag_or(given, "stacked", where, false)) chart.bars = Bars::stacked;
  if (find_field(given, "base", where)) chart.base = get_double(given, "base", where, -kMostValue, kMostValue);
  chart.width = side_or(given, "width", where, chart.width);
  chart.height = side_or(given, "height", where, chart.height);
  return bar_chart(chart);
}

std::string heat_of(const Json& given, std::string_view where) {
  check_fields(
      given, {"chart", "title", "subtitle", "width", "x", "y", "values", "middle", "better", "decimals", "value_label"},
      where);
  HeatMap map;
  map.grid = {.title = text_or(given, "title", where), .subtitle = text_or(given, "subtitle", where)};
  const Json &x = get_object(given, "x", where), &y = get_object(given, "y", where);
  check_fields(x, {"label", "ticks"}, where);
  check_fields(y, {"label", "ticks"}, where);
  map.grid.x_label = text_or(x, "label", where);
  map.grid.y_label = text_or(y, "label", where);
  map.grid.x_ticks = texts(x, "ticks", where);
  map.grid.y_ticks = texts(y, "ticks", where);
  map.values = numbers(given, "values", where);
  if (map.values.size() != map.grid.x_ticks.size() * map.grid.y_ticks.size())
    bad_input("{}: {} values for {} x {} cells; give one per cell, row by row from the bottom", where,
              map.values.size(), map.grid.x_ticks.size(), map.grid.y_ticks.size());
  if (find_field(given, "middle", where)) map.middle = get_double(given, "middle", where, -kMostValue, kMostValue);
  const std::string better = text_or(given, "better", where, "more");
  if (better != "more" && better != "less") bad_input("{}: better \"{}\" is none; use more or less", where, better);
  if (better == "less") map.better = Better::less;
  if (find_field(given, "decimals", where)) map.decimals = get_small(given, "decimals", where, 0, kMostDecimals);
  map.value_label = text_or(given, "value_label", where);
  map.grid.width = side_or(given, "width", where, map.grid.width);
  return heat_map(map);
}

}  // namespace

std::string chart_from_json(std::string_view text, std::string_view where) {
  const Json given = parse_json(text, where);
  const std::string kind = get_string(given, "chart", where);
  if (kind == "line") return line_of(given, where);
  if (kind == "bar") return bar_of(given, where);
  if (kind == "heat") return heat_of(given, where);
  bad_input("{}: chart \"{}\" is none; use line, bar or heat", where, kind);
}

}  // namespace weft::draw
