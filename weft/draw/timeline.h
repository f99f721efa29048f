// What ranks and links did, over time: one panel under another on a common axis, before and after. Where a rank
// computes nothing before its panel's end, it waits for communication: that is drawn, summed and written beside the
// panel's name.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weft::draw {

enum class Lane { compute, link };

struct Interval {
  double begin_s = 0, end_s = 0;
  int kind = 0;  // index into Timeline::kinds
  std::string hint;
};
struct TimelineRow {
  std::string name;  // of the rank; rows of one rank lie together, and the name is drawn once
  Lane lane = Lane::compute;
  std::vector<Interval> intervals;  // in any order; those that touch and are of one kind are drawn as one
};
struct TimelinePanel {
  std::string name;  // "sequential"
  std::vector<TimelineRow> rows;
  std::optional<double> exposed_s;  // else computed: the mean over compute lanes of the time they stand idle
};
struct Timeline {
  std::string title, subtitle;
  std::vector<std::string> kinds;
  std::vector<TimelinePanel> panels;
  double width = 960;
};

std::string timeline(const Timeline& timeline);

double end_of(const TimelinePanel& panel);  // seconds: the last end of any interval
double exposed_seconds(const TimelinePanel& panel);

}  // namespace weft::draw
