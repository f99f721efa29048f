// Where labels go so that none touches another: side by side, slanted, or thinned out below a row of columns; shifted
// beside points.
#pragma once

#include <string>
#include <vector>

#include "weft/draw/axis.h"
#include "weft/draw/svg.h"

namespace weft::draw {

// Names below columns, one per column; an empty one leaves its room to its neighbours.
struct Columns {
  std::vector<std::string> names;
  double first = 0;  // the middle of the first column; the canvas begins at 0
  double room = 1;   // from one middle to the next
  double size = kTickSize;
};

struct Slant {
  double degrees = 0;      // 0: level and centred; else the text climbs towards its column and ends there
  std::size_t stride = 1;  // every how many names are drawn
  double depth = 0;        // pixels that names reach down, beyond where level ones stand
};
// The flattest of 0, 32, 60 and 90 degrees at which all names fit and none leaves the canvas; at 90 some may have to
// go.
Slant slant_of(const Columns& columns);
void draw_names(Svg& svg, const Columns& columns, const Slant& slant, double bottom);

// The places next to `wanted` at which neighbours are at least `least` apart, in the same order, within low and high
// where they fit there.
std::vector<double> apart(const std::vector<double>& wanted, double least, double low, double high);

}  // namespace weft::draw
