// A grid of cells, coloured by what wins there (a regime map) or by a value (a heat map).
#pragma once

#include <string>
#include <vector>

#include "weft/draw/line_chart.h"

namespace weft::draw {

// Cells lie row by row, the first row at the bottom: y grows upwards, as on an axis.
struct Grid {
  std::string title, subtitle;
  std::string x_label, y_label;
  std::vector<std::string> x_ticks, y_ticks;  // one for a column, one for a row
  double width = 860;
};

struct Regime {
  int winner = -1;          // index into `winners`; any other: nothing known
  double strength = kNone;  // 0 to 1: how far ahead; pale where it hardly matters
  std::string text;         // in the cell, as "1.4x"
};
struct RegimeMap {
  Grid grid;
  std::vector<std::string> winners;
  std::vector<Regime> cells;  // of x_ticks * y_ticks; missing ones are unknown
};
std::string regime_map(const RegimeMap& map);

enum class Better { more, less };
struct HeatMap {
  Grid grid;
  std::vector<double> values;  // what is not finite is left blank
  double middle = kNone;       // a value that is neither good nor bad (1 for a ratio): two colours part there
  Better better = Better::more;
  int decimals = 2;         // of the number in each cell
  std::string value_label;  // what the colours mean, with the unit
};
std::string heat_map(const HeatMap& map);

}  // namespace weft::draw
