#include "weft/draw/theme.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/core.h>

namespace weft::draw {
namespace {

constexpr std::array<const char*, 7> kSeries{"#0072b2", "#d55e00", "#009e73", "#e69f00",
                                             "#cc79a7", "#56b4e9", "#5f6670"};
constexpr double kLegendRow = 20, kLegendSize = 12.5, kMargin = 24, kTitleSize = 18, kSubtitleSize = 12.5;

std::array<int, 3> channels(std::string_view colour) {
  std::array<int, 3> rgb{0, 0, 0};
  for (std::size_t i = 0; i < 3 && colour.size() == 7; ++i)
    std::from_chars(colour.data() + 1 + 2 * i, colour.data() + 3 + 2 * i, rgb[i], 16);
  return rgb;
}

std::vector<std::string> wrapped(std::string_view text, double width, double size) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    const std::string word(text.substr(0, blank));
    text.remove_prefix(std::min(text.size(), blank + 1));
    if (!line.empty() && text_width(line + " " + word, size) > width) {
      lines.push_back(line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

}  // namespace

std::string series_colour(std::size_t index) { return kSeries[index % kSeries.size()]; }

std::string ink_on(std::string_view colour) {
  const auto [r, g, b] = channels(colour);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#1b1f24" : "#ffffff";
}

std::string blended(std::string_view from, std::string_view to, double part) {
  const auto a = channels(from), b = channels(to);
  part = std::isfinite(part) ? std::clamp(part, 0.0, 1.0) : 0;
  std::string out = "#";
  for (std::size_t i = 0; i < 3; ++i) out += fmt::format("{:02x}", std::lround(a[i] + (b[i] - a[i]) * part));
  return out;
}

double draw_heading(Svg* svg, double width, std::string_view title, std::string_view subtitle) {
  const double room = width - 2 * kMargin, wide = text_width(title, kTitleSize) * 1.08;  // bold is wider
  if (svg)
    svg->text({kMargin, 30}, title,
              {.size = wide > room ? std::max(11.0, kTitleSize * room / wide) : kTitleSize, .bold = true});
  double y = 40;
  for (const std::string& line : wrapped(subtitle, room, kSubtitleSize)) {
    if (svg) svg->text({kMargin, y + 10}, line, {.size = kSubtitleSize, .fill = kFaint});
    y += 18;
  }
  return y + 2;
}

void draw_mark(Svg& svg, Point at, Mark mark, double size, const std::string& colour, std::string_view hint) {
  const Style style{.fill = colour, .stroke = "#ffffff", .stroke_width = 1};
  const double s = size;
  switch (mark) {
    case Mark::circle:
      svg.circle(at, s, style, hint);
      break;
    case Mark::square:
      svg.rect(at.x - s * 0.9, at.y - s * 0.9, s * 1.8, s * 1.8, style, hint);
      break;
    case Mark::triangle:
      svg.polygon({{at.x, at.y - s * 1.2}, {at.x + s * 1.1, at.y + s * 0.9}, {at.x - s * 1.1, at.y + s * 0.9}}, style);
      break;
    case Mark::diamond:
      svg.polygon({{at.x, at.y - s * 1.25}, {at.x + s * 1.25, at.y}, {at.x, at.y + s * 1.25}, {at.x - s * 1.25, at.y}},
                  style);
      break;
  }
}

double draw_legend(Svg* svg, Point at, double width, const std::vector<LegendItem>& items) {
  if (items.empty()) return 0;
  double x = 0, y = 0;
  for (const LegendItem& item : items) {
    const bool line = item.kind == LegendItem::Kind::line || item.kind == LegendItem::Kind::limit;
    const double icon = line ? 28 : 16;
    const double needed = icon + 6 + text_width(item.name, kLegendSize) + 18;
    if (x > 0 && x + needed > width) {
      x = 0;
      y += kLegendRow;
    }
    if (svg) {
      const double left = at.x + x, middle = at.y + y + kLegendRow / 2;
      if (line) {
        svg->line({left, middle}, {left + icon, middle},
                  {.stroke = item.colour, .stroke_width = 2.2, .dash = item.dash});
        if (item.kind == LegendItem::Kind::line)
          draw_mark(*svg, {left + icon / 2, middle}, item.mark, 4.2, item.colour);
      } else if (item.kind == LegendItem::Kind::outlined) {
        svg->rect(left, middle - 6, icon, 12,
                  {.fill = blended(item.colour, "#ffffff", 0.82), .stroke = item.colour, .dash = "3 2"});
      } else {
        svg->rect(left, middle - 6, icon, 12, {.fill = item.colour, .radius = 2});
      }
      svg->text({left + icon + 6, middle + 4.5}, item.name, {.size = kLegendSize});
    }
    x += needed;
  }
  return y + kLegendRow;
}

}  // namespace weft::draw
