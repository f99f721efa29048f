#include "weft/draw/line_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "weft/draw/labels.h"
#include "weft/draw/theme.h"

namespace weft::draw {
namespace {

constexpr const char* kBand = "#8c959f";
constexpr const char* kLimitDash = "5 4";
constexpr double kBandOpacity = 0.22, kBeside = 10;
constexpr Mark kMarks[] = {Mark::circle, Mark::square, Mark::triangle, Mark::diamond};

struct Plot {
  double left, top, right, bottom;
};

Range range_of(const LineChart& chart, bool vertical) {
  Range range;
  const Axis& axis = vertical ? chart.y : chart.x;
  const auto add = [&](double value) {
    if (axis.kind == AxisKind::linear || value > 0) range.add(value);
  };
  for (const Series& series : chart.series)
    for (const Sample& sample : series.samples) {
      add(vertical ? sample.y : sample.x);
      if (vertical) add(sample.low), add(sample.high);
    }
  if (vertical)
    for (const Band& band : chart.bands) add(band.low), add(band.high);
  return range;
}

std::vector<LegendItem> legend_of(const LineChart& chart) {
  std::vector<LegendItem> items;
  const auto labelled = [](const Sample& sample) { return !sample.label.empty(); };
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const std::vector<Sample>& samples = chart.series[i].samples;  // where each has its own label, that says it
    if (!samples.empty() && std::all_of(samples.begin(), samples.end(), labelled)) continue;
    items.push_back({chart.series[i].name, series_colour(i), LegendItem::Kind::line, kMarks[i % 4],
                     chart.series[i].dashed ? "6 4" : ""});
  }
  for (const Band& band : chart.bands)
    items.push_back(band.low == band.high
                        ? LegendItem{band.label, kFaint, LegendItem::Kind::limit, Mark::circle, kLimitDash}
                        : LegendItem{band.label, blended(kBand, "#ffffff", 1 - kBandOpacity)});
  return items;
}

void draw_axes(Svg& svg, const LineChart& chart, const Plot& plot, const Ruler& x, const Ruler& y) {
  svg.open_group("axes");
  for (const Tick& tick : y.ticks()) {
    const double at = y.at(tick.value);
    if (!tick.label.empty()) {
      svg.line({plot.left, at}, {plot.right, at}, {.stroke = kGrid});
      svg.text({plot.left - 8, at + 4.5}, tick.label, {.size = kTickSize, .fill = kFaint, .anchor = Anchor::end});
    }
  }
  for (const Tick& tick : x.ticks()) {
    const double at = x.at(tick.value);
    if (!tick.label.empty()) svg.line({at, plot.top}, {at, plot.bottom}, {.stroke = kGrid});
    svg.line({at, plot.bottom}, {at, plot.bottom + (tick.label.empty() ? 3.0 : 5.0)}, {.stroke = kFrame});
    svg.text({at, plot.bottom + 20}, tick.label, {.size = kTickSize, .fill = kFaint, .anchor = Anchor::middle});
  }
  svg.line({plot.left, plot.bottom}, {plot.right, plot.bottom}, {.stroke = kFrame});
  svg.text({(plot.left + plot.right) / 2, plot.bottom + 42}, chart.x.label, {.anchor = Anchor::middle});
  svg.text({22, (plot.top + plot.bottom) / 2}, chart.y.label, {.anchor = Anchor::middle, .rotate = -90});
  svg.close_group();
}

void draw_bands(Svg& svg, const LineChart& chart, const Plot& plot, const Ruler& y) {
  for (const Band& band : chart.bands) {
    if (!y.shows(band.low) || !y.shows(band.high)) continue;
    const double top = y.at(std::max(band.low, band.high)), bottom = y.at(std::min(band.low, band.high));
    if (bottom - top > 1)
      svg.rect(plot.left, top, plot.right - plot.left, bottom - top, {.fill = kBand, .opacity = kBandOpacity});
    else
      svg.line({plot.left, top}, {plot.right, top}, {.stroke = kFaint, .stroke_width = 1.4, .dash = kLimitDash});
  }
}

// The stretches of a series without gaps, each a band and a line.
void draw_series(Svg& svg, const Series& series, std::size_t index, const Ruler& x, const Ruler& y) {
  const std::string colour = series_colour(index);
  svg.open_group(series.name);
  std::vector<Point> line, upper, lower;
  const auto flush = [&] {
    if (upper.size() > 1) {
      upper.insert(upper.end(), lower.rbegin(), lower.rend());
      svg.polygon(upper, {.fill = colour, .opacity = 0.15});
    }
    if (line.size() > 1)
      svg.polyline(line, {.stroke = colour, .stroke_width = 2.2, .dash = series.dashed ? "6 4" : ""});
    line.clear(), upper.clear(), lower.clear();
  };
  for (const Sample& s : series.samples) {
    if (!x.shows(s.x) || !y.shows(s.y)) {
      flush();
      continue;
    }
    line.push_back({x.at(s.x), y.at(s.y)});
    if (y.shows(s.low) && y.shows(s.high)) {
      upper.push_back({x.at(s.x), y.at(s.high)});
      lower.push_back({x.at(s.x), y.at(s.low)});
    }
  }
  flush();
  for (const Sample& s : series.samples)
    if (series.marked && x.shows(s.x) && y.shows(s.y))
      draw_mark(svg, {x.at(s.x), y.at(s.y)}, kMarks[index % 4], 4.2, colour,
                fmt::format("{}: {}, {}", series.name, x.label(s.x), y.label(s.y)));
  svg.close_group();
}

struct PointLabel {
  std::string text;
  std::string colour;
  double x, y, left;  // of the point's middle; where the text begins
  bool before;        // the text ends at the point, for want of room behind it

  double right() const { return left + text_width(text, kTickSize); }
};

std::vector<PointLabel> labels_of(const LineChart& chart, const Plot& plot, const Ruler& x, const Ruler& y) {
  std::vector<PointLabel> out;
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    for (const Sample& s : chart.series[i].samples) {
      if (s.label.empty() || !x.shows(s.x) || !y.shows(s.y)) continue;
      const double at = x.at(s.x), width = text_width(s.label, kTickSize);
      const bool before = at + kBeside + width > plot.right;
      out.push_back({s.label, series_colour(i), at, y.at(s.y), before ? at - kBeside - width : at + kBeside, before});
    }
  std::stable_sort(out.begin(), out.end(), [](const PointLabel& a, const PointLabel& b) { return a.left < b.left; });
  return out;
}

// Beside their points; those that lie above one another move up or down until none touches the next.
void draw_labels(Svg& svg, const LineChart& chart, const Plot& plot, const Ruler& x, const Ruler& y) {
  const std::vector<PointLabel> labels = labels_of(chart, plot, x, y);
  for (std::size_t first = 0, end = 0; first < labels.size(); first = end) {
    std::vector<double> heights;
    double right = labels[first].right();
    for (end = first; end < labels.size() && labels[end].left < right; ++end) {
      right = std::max(right, labels[end].right());
      heights.push_back(labels[end].y);
    }
    heights = apart(heights, kTickSize * 1.2, plot.top + kTickSize / 2, plot.bottom - kTickSize / 2);
    for (std::size_t i = first; i < end; ++i)
      svg.text({labels[i].x + (labels[i].before ? -kBeside : kBeside), heights[i - first] + 4.5}, labels[i].text,
               {.size = kTickSize, .fill = labels[i].colour, .anchor = labels[i].before ? Anchor::end : Anchor::start});
  }
}

double widest_label(const Ruler& ruler) {
  double widest = 0;
  for (const Tick& tick : ruler.ticks()) widest = std::max(widest, text_width(tick.label, kTickSize));
  return widest;
}

}  // namespace

std::string line_chart(const LineChart& chart) {
  Svg svg(chart.width, chart.height, chart.title);
  const auto legend = legend_of(chart);
  const double heading = draw_heading(&svg, chart.width, chart.title, chart.subtitle);
  const double legend_height = draw_legend(&svg, {24, heading + 6}, chart.width - 48, legend);
  Plot plot{86, heading + legend_height + 26, chart.width - 34, chart.height - 58};
  plot.bottom = std::max(plot.bottom, plot.top + 40);
  const Ruler y(chart.y, range_of(chart, true), plot.bottom, plot.top, static_cast<int>((plot.bottom - plot.top) / 48));
  plot.left = std::max(plot.left, widest_label(y) + 42);
  const Ruler x(chart.x, range_of(chart, false), plot.left, plot.right,
                static_cast<int>((plot.right - plot.left) / 75));
  draw_axes(svg, chart, plot, x, y);
  draw_bands(svg, chart, plot, y);
  for (std::size_t i = 0; i < chart.series.size(); ++i) draw_series(svg, chart.series[i], i, x, y);
  draw_labels(svg, chart, plot, x, y);
  return svg.str();
}

}  // namespace weft::draw
