// Who carries what when: a row for each thing that can be busy, bars as high as the part of its rate they take. Bars
// that share a row at one time lie on one another, so an idle or half-used row shows at a glance.
#pragma once

#include <string>
#include <vector>

namespace weft::draw {

struct GanttBar {
  double begin_s = 0, end_s = 0;
  double share = 1;  // of the row's rate
  int kind = 0;      // colours repeat
  std::string hint;
  std::string label = {};  // inside the bar, where it fits
};
struct GanttRow {
  std::string group, name;  // rows of one group lie together, and its name is drawn once
  std::vector<GanttBar> bars;
};
struct Limit {  // a line across all rows
  double at_s = 0;
  std::string label;
};
struct Gantt {
  std::string title, subtitle;
  std::vector<GanttRow> rows;
  std::vector<std::string> kinds;  // the first ones, for the legend
  std::vector<Limit> limits;
  std::string note;  // below: what was left out
  double width = 960;
};

std::string gantt(const Gantt& what);

// The bars of a row cut where any of them begins or ends, so that all bars of a piece are there for the whole of it; in
// each piece they are stacked in the order given: `from` is where a bar's lower edge is, as a part of the row.
struct StackedBar {
  double begin_s = 0, end_s = 0, from = 0, share = 0;
  std::size_t bar = 0;
};
std::vector<StackedBar> stacked(const std::vector<GanttBar>& bars);

}  // namespace weft::draw
