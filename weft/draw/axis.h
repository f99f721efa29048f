// From values to pixels: an axis with its range, its round ticks and their labels.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace weft::draw {

enum class AxisKind { linear, log };
enum class Unit { plain, bytes, seconds, percent };  // bytes tick at powers of two; percent: 0.5 reads "50 %"

struct Axis {
  std::string label;  // with the unit where the ticks have none
  AxisKind kind = AxisKind::linear;
  Unit unit = Unit::plain;
  std::optional<double> min, max;  // else from the values
};

struct Range {
  double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();

  void add(double value);  // what is not finite is passed over
  bool empty() const { return !(min <= max); }
};

inline constexpr double kTickSize = 12.5;  // of a tick's label, pixels

struct Tick {
  double value = 0;
  std::string label;  // empty: a small tick
};

// An axis laid over pixels from `begin` to `end`; end < begin where it points up.
class Ruler {
 public:
  // Widened to round ends around the values, which may be none, one, or all equal; on a log axis all above 0. Ticks are
  // 1, 2 or 5 times a power of ten apart (bytes: powers of two), at most about `most_ticks`, and so few that no label
  // touches the next.
  Ruler(const Axis& axis, Range values, double begin, double end, int most_ticks);

  bool shows(double value) const;  // finite and, on a log axis, above 0
  double at(double value) const;   // a pixel; values beyond the ends are put at the ends
  const std::vector<Tick>& ticks() const { return ticks_; }
  std::string label(double value) const;  // in the unit of the axis

 private:
  void lay_linear(int most_ticks);
  void lay_log(int most_ticks);
  bool labels_fit() const;

  Axis axis_;
  double min_, max_, begin_, end_;
  std::vector<Tick> ticks_;
};

std::string tick_label(double value, Unit unit);  // "0.1", "64 KiB", "20 ms", "50 %"

}  // namespace weft::draw
