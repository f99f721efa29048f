// Lines over a linear or logarithmic axis: sweeps, scaling, the whole axis of compute to communication.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "weft/draw/axis.h"

namespace weft::draw {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Sample {
  double x = 0, y = 0;
  double low = kNone, high = kNone;  // a band about y, as p10 and p90
  std::string label = {};            // beside the point; labels make way for each other
};
struct Series {
  std::string name;
  std::vector<Sample> samples;  // in the order they are joined; one that is not finite breaks the line
  bool dashed = false;          // predicted, or a bound
  bool marked = true;           // a mark at each sample
};
struct Band {  // across the whole width: an A/A band, or a limit where low == high
  double low = 0, high = 0;
  std::string label;
};
struct LineChart {
  std::string title, subtitle;  // subtitle: machine, date, command
  Axis x, y;
  std::vector<Series> series;
  std::vector<Band> bands;
  double width = 860, height = 480;
};

std::string line_chart(const LineChart& chart);

}  // namespace weft::draw
