#include "weft/draw/gantt.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/draw/axis.h"
#include "weft/draw/svg.h"
#include "weft/draw/theme.h"

namespace weft::draw {
namespace {

constexpr double kGanttLeft = 148, kGanttRight = 62, kGanttRow = 17, kRowGap = 3, kGroupGap = 9, kGanttAxis = 60;
constexpr double kLimitSize = 11.5, kLimitLine = 14, kBarLabel = 10;

bool usable(const GanttBar& bar) {
  return std::isfinite(bar.begin_s) && std::isfinite(bar.end_s) && bar.end_s > bar.begin_s && bar.share > 0;
}

double end_of(const Gantt& what) {
  double end = 0;
  for (const GanttRow& row : what.rows)
    for (const GanttBar& bar : row.bars)
      if (usable(bar)) end = std::max(end, bar.end_s);
  for (const Limit& limit : what.limits) end = std::max(end, limit.at_s);
  return end > 0 ? end : 1;
}

double height_of(const std::vector<GanttRow>& rows) {
  double height = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    height += kGanttRow + (i == 0 ? 0 : rows[i].group == rows[i - 1].group ? kRowGap : kGroupGap);
  return height;
}

// How much of the row is used until `end`.
double used(const GanttRow& row, double end) {
  double sum = 0;
  for (const GanttBar& bar : row.bars)
    if (usable(bar)) sum += bar.share * (bar.end_s - bar.begin_s);
  return sum / end;
}

void draw_row(Svg& svg, const GanttRow& row, const Ruler& time, double y, double end) {
  svg.rect(time.at(0), y, time.at(end) - time.at(0), kGanttRow, {.fill = "#f3f4f6"});
  for (const StackedBar& piece : stacked(row.bars)) {
    const GanttBar& bar = row.bars[piece.bar];
    const double height = kGanttRow * std::min(piece.share, 1.0), x = time.at(piece.begin_s);
    const double top = y + kGanttRow * std::max(0.0, 1 - piece.from - piece.share), width = time.at(piece.end_s) - x;
    const std::string colour = series_colour(num(bar.kind));
    svg.rect(x, top, width, height, {.fill = colour, .stroke = "#ffffff", .stroke_width = 0.4}, bar.hint);
    if (!bar.label.empty() && height > kBarLabel && text_width(bar.label, kBarLabel) < width)
      svg.text({x + width / 2, top + height / 2 + kBarLabel * 0.36}, bar.label,
               {.size = kBarLabel, .fill = ink_on(colour), .anchor = Anchor::middle});
  }
  svg.text({time.at(end) + 8, y + kGanttRow - 4}, fmt::format("{:.0f} %", 100 * used(row, end)),
           {.size = 11, .fill = kFaint});
}

void draw_axis(Svg& svg, const Ruler& time, double top, double bottom, double width) {
  for (const Tick& tick : time.ticks()) {
    const double x = time.at(tick.value);
    svg.line({x, top}, {x, bottom + 5}, {.stroke = kGrid});
    svg.text({x, bottom + 20}, tick.label, {.size = 12, .fill = kFaint, .anchor = Anchor::middle});
  }
  svg.line({kGanttLeft, bottom}, {width - kGanttRight, bottom}, {.stroke = kFrame});
}

// The labels stand above the rows, each to the left of its line, or to the right where the left one has no room; those
// that would still run into an earlier one are lifted above it.
void draw_limits(Svg& svg, const Gantt& what, const Ruler& time, double top, double bottom) {
  std::vector<std::array<double, 3>> taken;  // from, to, lines up
  for (const Limit& limit : what.limits) {
    const double x = time.at(limit.at_s), wide = text_width(limit.label, kLimitSize);
    const bool left = x - 4 - wide > kGanttLeft;
    const double from = left ? x - 4 - wide : x + 4;
    double up = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& [begin, end, lines] : taken)
        if (lines == up && from < end + 6 && begin < from + wide + 6) ++up, moved = true;
    }
    taken.push_back({from, from + wide, up});
    svg.line({x, top - 4 - up * kLimitLine}, {x, bottom}, {.stroke = kInk, .stroke_width = 1.4, .dash = "5 3"});
    svg.text({left ? x - 4 : x + 4, top - 7 - up * kLimitLine}, limit.label,
             {.size = kLimitSize, .anchor = left ? Anchor::end : Anchor::start});
  }
}

}  // namespace

std::vector<StackedBar> stacked(const std::vector<GanttBar>& bars) {
  std::vector<double> cuts;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < bars.size(); ++i) {
    if (!usable(bars[i])) continue;
    cuts.push_back(bars[i].begin_s), cuts.push_back(bars[i].end_s);
    order.push_back(i);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bars[a].begin_s < bars[b].begin_s; });
  std::vector<StackedBar> out;
  std::vector<std::size_t> active;
  std::size_t next = 0;
  for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
    std::erase_if(active, [&](std::size_t i) { return bars[i].end_s <= cuts[c]; });
    while (next < order.size() && bars[order[next]].begin_s <= cuts[c]) active.push_back(order[next++]);
    double from = 0;
    for (const std::size_t i : active) {
      out.push_back({cuts[c], cuts[c + 1], from, bars[i].share, i});
      from += bars[i].share;
    }
  }
  return out;
}

std::string gantt(const Gantt& what) {
  std::vector<LegendItem> legend;
  for (std::size_t i = 0; i < what.kinds.size(); ++i) legend.push_back({what.kinds[i], series_colour(i)});
  const double legend_height = draw_legend(nullptr, {}, what.width - 48, legend);
  const double top = draw_heading(nullptr, what.width, what.title, what.subtitle) + legend_height + 34 +
                     kLimitLine * (std::max<std::size_t>(1, what.limits.size()) - 1);
  const double bottom = top + height_of(what.rows) + 8, end = end_of(what);
  Svg svg(what.width, bottom + kGanttAxis, what.title);
  const double heading = draw_heading(&svg, what.width, what.title, what.subtitle);
  draw_legend(&svg, {24, heading + 6}, what.width - 48, legend);
  const Axis axis{.unit = Unit::seconds, .min = 0, .max = end};
  const Ruler time(axis, Range{0, end}, kGanttLeft, what.width - kGanttRight, 8);
  draw_axis(svg, time, top - 4, bottom, what.width);
  double y = top;
  for (std::size_t i = 0; i < what.rows.size(); ++i) {
    const GanttRow& row = what.rows[i];
    const bool same = i > 0 && row.group == what.rows[i - 1].group;
    if (i > 0) y += same ? kRowGap : kGroupGap;
    if (!same) svg.text({24, y + kGanttRow - 4}, row.group, {.size = 12.5});
    svg.text({kGanttLeft - 8, y + kGanttRow - 4}, row.name, {.size = 11, .fill = kFaint, .anchor = Anchor::end});
    draw_row(svg, row, time, y, end);
    y += kGanttRow;
  }
  draw_limits(svg, what, time, top, bottom);
  if (!what.note.empty()) svg.text({24, bottom + 44}, what.note, {.size = 12, .fill = kFaint});
  return svg.str();
}

}  // namespace weft::draw
