#include "weft/draw/labels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "weft/base/index.h"
#include "weft/draw/theme.h"

namespace weft::draw {
namespace {

constexpr double kAngles[] = {32, 60, 90};
constexpr double kLineHeight = 1.2;  // of the text's size
constexpr double kEdge = 4;          // of the canvas that stays free

double radians(double degrees) { return degrees * std::numbers::pi / 180; }

bool fits_level(const Columns& c) {
  double end = kEdge;
  for (std::size_t i = 0; i < c.names.size(); ++i) {
    if (c.names[i].empty()) continue;
    const double middle = c.first + i * c.room, half = text_width(c.names[i], c.size) / 2;
    if (middle - half < end) return false;
    end = middle + half + c.size / 2;
  }
  return true;
}

// From one name to the next where they are closest.
double least_gap(const Columns& c) {
  double gap = std::numeric_limits<double>::infinity(), last = -gap;
  for (std::size_t i = 0; i < c.names.size(); ++i) {
    if (c.names[i].empty()) continue;
    gap = std::min(gap, i * c.room - last);
    last = i * c.room;
  }
  return gap;
}

bool stays_inside(const Columns& c, double cosine) {
  for (std::size_t i = 0; i < c.names.size(); ++i)
    if (c.first + i * c.room - text_width(c.names[i], c.size) * cosine < kEdge) return false;
  return true;
}

}  // namespace

Slant slant_of(const Columns& columns) {
  if (fits_level(columns)) return {};
  double widest = 0;
  for (const std::string& name : columns.names) widest = std::max(widest, text_width(name, columns.size));
  const double gap = least_gap(columns);
  for (const double angle : kAngles) {
    const double sine = std::sin(radians(angle)), needed = kLineHeight * columns.size / sine;
    const bool fits = gap >= needed && stays_inside(columns, std::cos(radians(angle)));
    if (!fits && angle != 90) continue;
    return {angle, num(std::max(1.0, std::ceil(needed / gap - 1e-9))), widest * sine};
  }
  return {};
}

void draw_names(Svg& svg, const Columns& columns, const Slant& slant, double bottom) {
  const bool level = slant.degrees == 0, upright = slant.degrees == 90;
  std::size_t index = 0;
  for (std::size_t i = 0; i < columns.names.size(); ++i) {
    if (columns.names[i].empty() || index++ % slant.stride != 0) continue;
    const double x = columns.first + i * columns.room + (upright ? columns.size / 3 : 0);
    svg.text({x, bottom + (level     ? 20
                           : upright ? 8
                                     : 14)},
             columns.names[i],
             {.size = columns.size,
              .fill = kFaint,
              .anchor = level ? Anchor::middle : Anchor::end,
              .rotate = -slant.degrees});
  }
}

std::vector<double> apart(const std::vector<double>& wanted, double least, double low, double high) {
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
  std::vector<double> out(wanted.size());
  double last = low - least;
  for (const std::size_t i : order) last = out[i] = std::max({wanted[i], low, last + least});
  double next = high + least;  // what was pushed beyond the end goes back, as far as there is room
  for (auto i = order.rbegin(); i != order.rend(); ++i) next = out[*i] = std::min(out[*i], next - least);
  const double short_of = order.empty() ? 0 : std::max(0.0, low - out[order.front()]);
  for (double& place : out) place += short_of;
  return out;
}

}  // namespace weft::draw
