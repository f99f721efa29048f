#include "weft/draw/heat_map.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "weft/base/index.h"
#include "weft/draw/labels.h"
#include "weft/draw/theme.h"

namespace weft::draw {
namespace {

constexpr double kLeastLeft = 110, kHeatRight = 28, kHeatRow = 34, kHeatBelow = 60, kHeatBar = 52;
constexpr const char* kUnknown = "#f0f2f4";

// Where the cells are, and the canvas they are drawn on.
struct Board {
  Svg svg;
  double top, left, cell_width;
  std::size_t columns, rows;
  double below;  // from the last row to what stands under its names

  double x(std::size_t column) const { return left + column * cell_width; }
  double y(std::size_t row) const { return top + (rows - 1 - row) * kHeatRow; }
  double bottom() const { return top + rows * kHeatRow; }
};

Board make_board(const Grid& grid, const std::vector<LegendItem>& legend, double extra) {
  const std::size_t columns = std::max<std::size_t>(1, grid.x_ticks.size());
  const std::size_t rows = std::max<std::size_t>(1, grid.y_ticks.size());
  const double legend_height = draw_legend(nullptr, {}, grid.width - 48, legend);
  const double top = draw_heading(nullptr, grid.width, grid.title, grid.subtitle) + legend_height + 18;
  double left = kLeastLeft;  // room for the names of rows and, upright, of what they are
  for (const std::string& tick : grid.y_ticks) left = std::max(left, text_width(tick, kTickSize) + 44);
  left = std::min(left, grid.width / 2);
  const double cell_width = (grid.width - left - kHeatRight) / columns;
  const Columns names{.names = grid.x_ticks, .first = left + cell_width / 2, .room = cell_width};
  const Slant slant = slant_of(names);
  const double height = top + rows * kHeatRow + kHeatBelow + slant.depth + extra;
  Board board{Svg(grid.width, height, grid.title), top, left, cell_width, columns, rows, kHeatBelow + slant.depth};
  const double heading = draw_heading(&board.svg, grid.width, grid.title, grid.subtitle);
  draw_legend(&board.svg, {24, heading + 6}, grid.width - 48, legend);
  for (std::size_t row = 0; row < grid.y_ticks.size(); ++row)
    board.svg.text({left - 10, board.y(row) + kHeatRow / 2 + 4.5}, grid.y_ticks[row],
                   {.size = kTickSize, .fill = kFaint, .anchor = Anchor::end});
  draw_names(board.svg, names, slant, board.bottom());
  board.svg.text({(left + grid.width - kHeatRight) / 2, board.bottom() + board.below - 20}, grid.x_label,
                 {.anchor = Anchor::middle});
  board.svg.text({22, board.top + rows * kHeatRow / 2}, grid.y_label, {.anchor = Anchor::middle, .rotate = -90});
  return board;
}

void draw_cell(Board& board, std::size_t column, std::size_t row, const std::string& colour, const std::string& text) {
  board.svg.rect(board.x(column) + 1, board.y(row) + 1, board.cell_width - 2, kHeatRow - 2,
                 {.fill = colour, .radius = 3});
  if (text.empty()) return;
  // Room for the text, or none of it: a number cut short would be another number.
  const double size = std::min(kTickSize, kTickSize * (board.cell_width - 6) / text_width(text, kTickSize));
  if (size < 8) return;
  board.svg.text({board.x(column) + board.cell_width / 2, board.y(row) + kHeatRow / 2 + size * 0.36}, text,
                 {.size = size, .fill = ink_on(colour), .anchor = Anchor::middle});
}

// Colours of values from `range`: dark is more. About a middle, blue is better and orange worse, equally far from it
// equally dark.
struct Colours {
  Range range;
  double middle;
  Better better;

  std::string of(double value) const {
    if (!std::isfinite(middle)) {
      const double span = range.max - range.min;
      return blended("#deebf7", "#08519c", span > 0 ? (value - range.min) / span : 0.5);
    }
    const double farthest = std::max(range.max - middle, middle - range.min);
    const double part = farthest > 0 ? std::abs(value - middle) / farthest : 0;
    return blended("#f7f7f7", (value > middle) == (better == Better::more) ? "#0072b2" : "#d55e00", part);
  }
};

void draw_bar(Board& board, const HeatMap& map, const Colours& colours) {
  constexpr int kParts = 60;
  const double width = 260, left = board.left, top = board.bottom() + board.below;
  for (int i = 0; i < kParts; ++i)
    board.svg.rect(
        left + width * i / kParts, top, width / kParts + 0.5, 12,
        {.fill = colours.of(colours.range.min + (colours.range.max - colours.range.min) * (i + 0.5) / kParts)});
  const auto label = [&](double value, double x, Anchor anchor) {
    board.svg.text({x, top + 27}, fmt::format("{:.{}f}", value, map.decimals),
                   {.size = 11.5, .fill = kFaint, .anchor = anchor});
  };
  label(colours.range.min, left, Anchor::start);
  label(colours.range.max, left + width, Anchor::end);
  const double part = (colours.middle - colours.range.min) / (colours.range.max - colours.range.min);
  if (part > 0.2 && part < 0.8) label(colours.middle, left + width * part, Anchor::middle);
  board.svg.text({left + width + 16, top + 11}, map.value_label, {.size = kTickSize});
}

}  // namespace

std::string regime_map(const RegimeMap& map) {
  std::vector<LegendItem> legend;
  for (std::size_t i = 0; i < map.winners.size(); ++i) legend.push_back({map.winners[i], series_colour(i)});
  Board board = make_board(map.grid, legend, 0);
  for (std::size_t row = 0; row < board.rows; ++row)
    for (std::size_t column = 0; column < board.columns; ++column) {
      const std::size_t index = row * board.columns + column;
      const Regime cell = index < map.cells.size() ? map.cells[index] : Regime{};
      const bool known = cell.winner >= 0 && num(cell.winner) < map.winners.size();
      const double strength = std::isfinite(cell.strength) ? std::clamp(cell.strength, 0.0, 1.0) : 1;
      const std::string colour =
          known ? blended("#ffffff", series_colour(num(cell.winner)), 0.3 + 0.7 * strength) : kUnknown;
      draw_cell(board, column, row, colour, cell.text);
    }
  return board.svg.str();
}

std::string heat_map(const HeatMap& map) {
  Board board = make_board(map.grid, {}, kHeatBar);
  Colours colours{{}, map.middle, map.better};
  for (double value : map.values) colours.range.add(value);
  colours.range.add(map.middle);
  if (colours.range.empty()) colours.range = {0, 1};
  for (std::size_t row = 0; row < board.rows; ++row)
    for (std::size_t column = 0; column < board.columns; ++column) {
      const std::size_t index = row * board.columns + column;
      const double value = index < map.values.size() ? map.values[index] : kNone;
      const bool known = std::isfinite(value);
      draw_cell(board, column, row, known ? colours.of(value) : kUnknown,
                known ? fmt::format("{:.{}f}", value, map.decimals) : "");
    }
  draw_bar(board, map, colours);
  return board.svg.str();
}

}  // namespace weft::draw
