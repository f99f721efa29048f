// Bars in groups, side by side or stacked: configurations over sub-layers, traffic by source.
#pragma once

#include <string>
#include <vector>

#include "weft/draw/axis.h"

namespace weft::draw {

enum class Bars { side_by_side, stacked };

struct BarGroup {
  std::string name;            // below the axis; groups without one stand close to the one before
  std::vector<double> values;  // one for each series; what is not finite is left out
};
struct BarChart {
  std::string title, subtitle;
  Axis y;
  std::vector<std::string> series;
  std::vector<BarGroup> groups;
  Bars bars = Bars::side_by_side;
  double base = 0;  // where bars begin
  double width = 980, height = 420;
};

std::string bar_chart(const BarChart& chart);

}  // namespace weft::draw
