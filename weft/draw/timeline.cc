#include "weft/draw/timeline.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/draw/axis.h"
#include "weft/draw/theme.h"

namespace weft::draw {
namespace {

constexpr double kTimelineLeft = 138, kTimelineRight = 34, kCompute = 20, kLink = 11, kLaneGap = 3, kRankGap = 9,
                 kPanelHead = 38;
constexpr double kPanelGap = 14, kTimelineAxis = 56;
constexpr const char* kExposed = "#b3261e";

bool drawable(const Interval& interval) {
  return std::isfinite(interval.begin_s) && std::isfinite(interval.end_s) && interval.end_s > interval.begin_s;
}

std::vector<Interval> in_order(const TimelineRow& row) {
  std::vector<Interval> intervals;
  std::copy_if(row.intervals.begin(), row.intervals.end(), std::back_inserter(intervals), drawable);
  std::stable_sort(intervals.begin(), intervals.end(),
                   [](const Interval& a, const Interval& b) { return a.begin_s < b.begin_s; });
  return intervals;
}

// Joins neighbours of one kind that lie closer than `gap_s`: tiles are too many and too thin to be drawn one by one.
std::vector<Interval> joined(const std::vector<Interval>& intervals, double gap_s) {
  std::vector<Interval> out;
  for (const Interval& interval : intervals) {
    if (!out.empty() && out.back().kind == interval.kind && interval.begin_s - out.back().end_s <= gap_s) {
      out.back().end_s = std::max(out.back().end_s, interval.end_s);
      if (out.back().hint != interval.hint) out.back().hint.clear();
    } else {
      out.push_back(interval);
    }
  }
  return out;
}

// When the lane does nothing, until `end`.
std::vector<Interval> idle_of(const std::vector<Interval>& intervals, double end) {
  std::vector<Interval> out;
  double busy_until = 0;
  for (const Interval& interval : intervals) {
    if (interval.begin_s > busy_until) out.push_back({busy_until, interval.begin_s});
    busy_until = std::max(busy_until, interval.end_s);
  }
  if (end > busy_until) out.push_back({busy_until, end});
  return out;
}

double height_of(Lane lane) { return lane == Lane::compute ? kCompute : kLink; }

double height_of(const TimelinePanel& panel) {
  double height = kPanelHead;
  for (std::size_t i = 0; i < panel.rows.size(); ++i) {
    const bool same_rank = i > 0 && panel.rows[i].name == panel.rows[i - 1].name;
    height += height_of(panel.rows[i].lane) + (i == 0 ? 0 : same_rank ? kLaneGap : kRankGap);
  }
  return height;
}

std::string time_text(double seconds) {
  return tick_label(seconds == 0 ? 0 : std::stod(fmt::format("{:.3g}", seconds)), Unit::seconds);
}

struct Page {
  Svg& svg;
  const Timeline& what;
  const Ruler& time;
  double pixel_s;  // seconds in a pixel
};

void draw_row(const Page& page, const TimelineRow& row, double y, double end) {
  const double height = height_of(row.lane);
  const auto intervals = in_order(row);
  page.svg.rect(kTimelineLeft, y, page.time.at(end) - kTimelineLeft, height, {.fill = "#f0f2f4"});
  if (row.lane == Lane::compute)
    for (const Interval& idle : idle_of(intervals, end)) {
      const double x = page.time.at(idle.begin_s), width = page.time.at(idle.end_s) - x;
      if (width < 1.5) continue;
      page.svg.rect(
          x + 0.5, y + 0.5, width - 1, height - 1,
          {.fill = blended(kExposed, "#ffffff", 0.82), .stroke = kExposed, .stroke_width = 0.8, .dash = "3 2"},
          fmt::format("waits {}", time_text(idle.end_s - idle.begin_s)));
    }
  for (const Interval& interval : joined(intervals, 0.35 * page.pixel_s)) {
    const double x = page.time.at(interval.begin_s), width = page.time.at(interval.end_s) - x;
    const bool known = interval.kind >= 0 && num(interval.kind) < page.what.kinds.size();
    const std::string colour = known ? series_colour(num(interval.kind)) : kFrame;
    const std::string hint =
        fmt::format("{}{}{}", interval.hint.empty() && known ? page.what.kinds[at(interval.kind)] : interval.hint,
                    interval.hint.empty() && !known ? "" : ": ", time_text(interval.end_s - interval.begin_s));
    // A hairline of white parts neighbours of different kinds.
    page.svg.rect(x, y, std::max(0.5, width > 3 ? width - 0.6 : width), height, {.fill = colour}, hint);
  }
}

void draw_panel(const Page& page, const TimelinePanel& panel, double top) {
  const double end = end_of(panel), exposed = panel.exposed_s.value_or(exposed_seconds(panel));
  page.svg.open_group(panel.name);
  page.svg.text({24, top + 20}, panel.name, {.size = 14.5, .bold = true});
  page.svg.text({24 + text_width(panel.name, 14.5) * 1.08 + 14, top + 20}, time_text(end), {.size = 13.5});
  const double part = end > 0 ? exposed / end : 0;
  page.svg.text({page.what.width - kTimelineRight, top + 20},
                fmt::format("exposed communication {} ({:.0f} %)", time_text(exposed), 100 * part),
                {.size = 13, .fill = exposed > 0 ? kExposed : kFaint, .anchor = Anchor::end, .bold = true});
  double y = top + kPanelHead;
  for (std::size_t i = 0; i < panel.rows.size(); ++i) {
    const TimelineRow& row = panel.rows[i];
    const bool same_rank = i > 0 && row.name == panel.rows[i - 1].name;
    if (i > 0) y += same_rank ? kLaneGap : kRankGap;
    const double middle = y + height_of(row.lane) / 2;
    if (!same_rank) page.svg.text({24, middle + 4.5}, row.name, {.size = 12.5});
    page.svg.text({kTimelineLeft - 10, middle + 4}, row.lane == Lane::compute ? "compute" : "link",
                  {.size = 11, .fill = kFaint, .anchor = Anchor::end});
    draw_row(page, row, y, end);
    y += height_of(row.lane);
  }
  const double x = page.time.at(end);
  page.svg.line({x, top + kPanelHead - 6}, {x, y + 4}, {.stroke = kInk, .stroke_width = 1.6});
  page.svg.close_group();
}

void draw_axis(const Page& page, double top, double bottom) {
  for (const Tick& tick : page.time.ticks()) {
    const double x = page.time.at(tick.value);
    page.svg.line({x, top}, {x, bottom + 5}, {.stroke = kGrid});
    page.svg.text({x, bottom + 21}, tick.label, {.size = kTickSize, .fill = kFaint, .anchor = Anchor::middle});
  }
  page.svg.line({kTimelineLeft, bottom}, {page.what.width - kTimelineRight, bottom}, {.stroke = kFrame});
  page.svg.text({(kTimelineLeft + page.what.width - kTimelineRight) / 2, bottom + 42}, "time",
                {.anchor = Anchor::middle});
}

}  // namespace

double end_of(const TimelinePanel& panel) {
  double end = 0;
  for (const TimelineRow& row : panel.rows)
    for (const Interval& interval : row.intervals)
      if (drawable(interval)) end = std::max(end, interval.end_s);
  return end;
}

double exposed_seconds(const TimelinePanel& panel) {
  const double end = end_of(panel);
  double idle = 0;
  int lanes = 0;
  for (const TimelineRow& row : panel.rows) {
    if (row.lane != Lane::compute) continue;
    ++lanes;
    for (const Interval& interval : idle_of(in_order(row), end)) idle += interval.end_s - interval.begin_s;
  }
  return lanes == 0 ? 0 : idle / lanes;
}

std::string timeline(const Timeline& what) {
  std::vector<LegendItem> legend;
  for (std::size_t i = 0; i < what.kinds.size(); ++i) legend.push_back({what.kinds[i], series_colour(i)});
  legend.push_back({"rank waits: exposed communication", kExposed, LegendItem::Kind::outlined});
  const double legend_height = draw_legend(nullptr, {}, what.width - 48, legend);
  const double top = draw_heading(nullptr, what.width, what.title, what.subtitle) + legend_height + 14;
  double bottom = top;
  Range range;
  range.add(0);
  for (const TimelinePanel& panel : what.panels) {
    bottom += height_of(panel) + kPanelGap;
    range.add(end_of(panel));
  }
  Svg svg(what.width, bottom + kTimelineAxis, what.title);
  const double heading = draw_heading(&svg, what.width, what.title, what.subtitle);
  draw_legend(&svg, {24, heading + 6}, what.width - 48, legend);
  // The common axis ends at the last end itself: round numbers are for ticks, not for empty paper.
  const Axis axis{.unit = Unit::seconds, .min = 0, .max = range.max > 0 ? range.max : 1};
  const Ruler time(axis, range, kTimelineLeft, what.width - kTimelineRight, 8);
  const Page page{svg, what, time, *axis.max / (what.width - kTimelineRight - kTimelineLeft)};
  draw_axis(page, top + kPanelHead - 6, bottom);
  double y = top;
  for (const TimelinePanel& panel : what.panels) {
    draw_panel(page, panel, y);
    y += height_of(panel) + kPanelGap;
  }
  return svg.str();
}

}  // namespace weft::draw
