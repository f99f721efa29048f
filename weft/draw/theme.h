// What all charts share: colours, title, legend. The colours of series are those of Okabe and Ito, which stay apart for
// colour-blind readers; series differ in marker too, so that grey print serves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/draw/svg.h"

namespace weft::draw {

inline constexpr const char* kInk = "#24292f";
inline constexpr const char* kFaint = "#57606a";  // text that comes second
inline constexpr const char* kGrid = "#e4e7eb";
inline constexpr const char* kFrame = "#8c959f";

std::string series_colour(std::size_t index);
std::string ink_on(std::string_view colour);  // black or white, whichever reads better on it

// Blends two "#rrggbb"; part 0 is the first.
std::string blended(std::string_view from, std::string_view to, double part);

// Title and subtitle at the top left of a canvas that wide: a long title shrinks, a long subtitle wraps. Returns the y
// below them; without a canvas it only measures.
double draw_heading(Svg* svg, double width, std::string_view title, std::string_view subtitle);

enum class Mark { circle, square, triangle, diamond };
void draw_mark(Svg& svg, Point at, Mark mark, double size, const std::string& colour, std::string_view hint = {});

struct LegendItem {
  std::string name, colour;
  enum class Kind { line, box, outlined, limit } kind = Kind::box;
  Mark mark = Mark::circle;
  std::string dash;
};
// In rows from (x, y) within `width`; returns the height taken, 0 for none. Without a canvas it only measures.
double draw_legend(Svg* svg, Point at, double width, const std::vector<LegendItem>& items);

}  // namespace weft::draw
