#include "weft/draw/bar_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "weft/draw/labels.h"
#include "weft/draw/theme.h"

namespace weft::draw {
namespace {

constexpr double kLeft = 72, kRight = 24, kNameSize = 11.5;

Range range_of(const BarChart& chart) {
  Range range;
  range.add(chart.base);
  for (const BarGroup& group : chart.groups) {
    double sum = 0;
    for (const double value : group.values) {
      if (chart.bars == Bars::side_by_side) range.add(value);
      if (std::isfinite(value)) sum += value;
    }
    if (chart.bars == Bars::stacked) range.add(sum);
  }
  return range;
}

struct Place {
  double x, width;  // of a group
};

void draw_group(Svg& svg, const BarChart& chart, const BarGroup& group, Place place, const Ruler& y) {
  const double each = chart.bars == Bars::stacked ? place.width : place.width / chart.series.size();
  double below = chart.base;
  for (std::size_t i = 0; i < group.values.size(); ++i) {
    const double value = group.values[i];
    if (!std::isfinite(value)) continue;
    const bool stacked = chart.bars == Bars::stacked;
    const double from = stacked ? below : chart.base, to = stacked ? below + value : value;
    const double top = std::min(y.at(from), y.at(to)), height = std::abs(y.at(from) - y.at(to));
    svg.rect(place.x + (stacked ? 0 : each * i), top, std::max(1.0, each - 1), height, {.fill = series_colour(i)},
             fmt::format("{}: {}", chart.series[i], y.label(value)));
    below += value;
  }
}

void draw_axis(Svg& svg, const BarChart& chart, const Ruler& y, double top, double bottom) {
  for (const Tick& tick : y.ticks()) {
    if (tick.label.empty()) continue;
    svg.line({kLeft, y.at(tick.value)}, {chart.width - kRight, y.at(tick.value)}, {.stroke = kGrid});
    svg.text({kLeft - 8, y.at(tick.value) + 4.5}, tick.label,
             {.size = kTickSize, .fill = kFaint, .anchor = Anchor::end});
  }
  svg.text({20, (top + bottom) / 2}, chart.y.label, {.anchor = Anchor::middle, .rotate = -90});
}

}  // namespace

std::string bar_chart(const BarChart& chart) {
  std::vector<LegendItem> legend;
  for (std::size_t i = 0; i < chart.series.size(); ++i) legend.push_back({chart.series[i], series_colour(i)});
  Svg svg(chart.width, chart.height, chart.title);
  double top = draw_heading(&svg, chart.width, chart.title, chart.subtitle) + 6;
  top += draw_legend(&svg, {24, top}, chart.width - 48, legend) + 10;
  const double columns = std::max<std::size_t>(1, chart.groups.size());
  const double room = (chart.width - kLeft - kRight) / columns;
  Columns names{.first = kLeft + 0.58 * room, .room = room, .size = kNameSize};
  for (const BarGroup& group : chart.groups) names.names.push_back(group.name);
  const Slant slant = slant_of(names);
  const double bottom = std::max(top + 40, chart.height - slant.depth - 34);
  const Ruler y(chart.y, range_of(chart), bottom, top, 8);
  draw_axis(svg, chart, y, top, bottom);
  for (std::size_t g = 0; g < chart.groups.size(); ++g) {
    const BarGroup& group = chart.groups[g];
    const double x = kLeft + room * (g + (group.name.empty() ? 0.02 : 0.18));
    draw_group(svg, chart, group, {x, room * 0.8}, y);
  }
  draw_names(svg, names, slant, bottom);
  svg.line({kLeft, y.at(chart.base)}, {chart.width - kRight, y.at(chart.base)}, {.stroke = kFrame});
  return svg.str();
}

}  // namespace weft::draw
