// A schedule drawn: what every NIC sends and receives when, for the terminal and as SVG.
#pragma once

#include <string>
#include <vector>

#include "weft/draw/gantt.h"
#include "weft/reshard/schedule/schedule.h"
#include "weft/study/reshard/request.h"

namespace weft {

// Rows of NICs that carry anything, in their order, a row for each direction; the bars' kinds are tasks, or tensors
// where there are several.
std::vector<draw::GanttRow> nic_rows(const ReshardSpec& spec, const std::vector<Task>& tasks, const Schedule& schedule);

// One glyph for a task or tensor; they repeat after 62.
char glyph_of(int kind);

struct GanttLimits {
  int width = 100;  // characters
  int rows = 40;
};
// A scale line, then the rows; where there are too many, the busiest, and a line that says what was left out.
std::string gantt_text(const ReshardSpec& spec, const std::vector<Task>& tasks, const Schedule& schedule,
                       const GanttLimits& limits);
std::string gantt_svg(const ReshardSpec& spec, const std::vector<Task>& tasks, const Schedule& schedule);

}  // namespace weft
