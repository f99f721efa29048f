#include "weft/draw/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include <fmt/core.h>

#include "weft/draw/svg.h"

namespace weft::draw {
namespace {

// Doubles near their limits overflow in a ratio or a difference.
constexpr double kLeast = 1e-100, kMost = 1e100;

struct Prefix {
  double value;
  const char* name;
};
constexpr std::array<Prefix, 5> kBytes{
    {{1099511627776.0, "TiB"}, {1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}, {1.0, "B"}}};
constexpr std::array<Prefix, 4> kSeconds{{{1.0, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};

template <std::size_t n>
std::string prefixed(double value, const std::array<Prefix, n>& prefixes) {
  if (value == 0) return fmt::format("0 {}", prefixes[n > 4 ? n - 1 : 0].name);
  for (const Prefix& p : prefixes)
    if (std::abs(value) >= p.value * (1 - 1e-9)) return fmt::format("{:.4g} {}", value / p.value, p.name);
  return fmt::format("{:.4g} {}", value / prefixes.back().value, prefixes.back().name);
}

// The least of 1, 2 and 5 times a power of ten that is not below.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (double digit : {1.0, 2.0, 5.0})
    if (digit * power >= step * (1 - 1e-9)) return digit * power;
  return 10 * power;
}

// Steps of a byte axis follow powers of two.
double binary_step(double step) { return std::exp2(std::ceil(std::log2(step) - 1e-9)); }

}  // namespace

void Range::add(double value) {
  if (!std::isfinite(value)) return;
  value = std::clamp(value, -kMost, kMost);
  min = std::min(min, value);
  max = std::max(max, value);
}

std::string tick_label(double value, Unit unit) {
  switch (unit) {
    case Unit::bytes:
      return prefixed(value, kBytes);
    case Unit::seconds:
      return prefixed(value, kSeconds);
    case Unit::percent:
      return fmt::format("{:.4g} %", value * 100);
    case Unit::plain:
      break;
  }
  const double size = std::abs(value);
  if (size >= 1e4 && size < 1e15) {
    for (const Prefix& p : {Prefix{1e12, "T"}, Prefix{1e9, "G"}, Prefix{1e6, "M"}, Prefix{1e3, "k"}})
      if (size >= p.value) return fmt::format("{:.4g}{}", value / p.value, p.name);
  }
  return fmt::format("{:.4g}", value);
}

Ruler::Ruler(const Axis& axis, Range values, double begin, double end, int most_ticks)
    : axis_(axis), begin_(begin), end_(end) {
  const bool log = axis.kind == AxisKind::log;
  if (axis.min) values.min = *axis.min;
  if (axis.max) values.max = *axis.max;
  if (values.empty() || !std::isfinite(values.min) || !std::isfinite(values.max))
    values = {log ? 0.1 : 0.0, log ? 10.0 : 1.0};
  const double least = log ? kLeast : -kMost;
  values = {std::clamp(values.min, least, kMost), std::clamp(values.max, least, kMost)};
  if (values.max - values.min <= 1e-12 * std::max(std::abs(values.min), std::abs(values.max))) {  // one value
    const double by = values.min == 0 ? 1 : std::abs(values.min) / 2;
    values = log ? Range{values.min / 2, values.max * 2} : Range{values.min - by, values.max + by};
  }
  const Range whole = values;
  for (int most = std::max(2, most_ticks); most >= 1; --most) {
    min_ = whole.min;
    max_ = whole.max;
    ticks_.clear();
    log ? lay_log(most) : lay_linear(most);
    if (labels_fit()) break;
  }
}

void Ruler::lay_linear(int most_ticks) {
  const double rough = (max_ - min_) / most_ticks;
  const double step = axis_.unit == Unit::bytes ? binary_step(rough) : round_step(rough);
  const double below = std::floor(min_ / step + 1e-9) * step;
  if (!axis_.min && (axis_.kind == AxisKind::linear || below > 0)) min_ = below;
  if (!axis_.max) max_ = std::ceil(max_ / step - 1e-9) * step;
  const double first = std::ceil(min_ / step - 1e-9);
  for (int i = 0; i <= 2 * most_ticks + 2; ++i) {
    const double value = (first + i) * step;
    if (value > max_ + step * 1e-9) break;
    ticks_.push_back({value, tick_label(std::abs(value) < step * 1e-9 ? 0 : value, axis_.unit)});
  }
}

// Ticks at powers of the base, and over few decades also at 2 and 5 of each. A range between two of them has the ticks
// of a linear axis.
void Ruler::lay_log(int most_ticks) {
  const double base = axis_.unit == Unit::bytes ? 2 : 10;
  const auto power_of = [base](double value) { return std::log(value) / std::log(base); };
  const double decades = power_of(max_) - power_of(min_);
  if (base == 10 && decades < 0.5) return lay_linear(most_ticks);
  const bool fine = base == 10 && decades <= 2.2 && 3 * decades <= most_ticks;
  const std::vector<double> digits = fine ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
  const int every = std::max(1, static_cast<int>(std::ceil(decades / most_ticks)));
  const int first = static_cast<int>(std::floor(power_of(min_) + 1e-9)),
            last = static_cast<int>(std::ceil(power_of(max_) - 1e-9));
  std::vector<Tick> all;
  for (int power = first; power <= last; ++power)
    for (double digit : digits) {
      const double value = digit * std::pow(base, power);
      all.push_back({value, (power - first) % every == 0 ? tick_label(value, axis_.unit) : ""});
    }
  const auto below = [](double value, const Tick& tick) { return value < tick.value; };
  if (!axis_.min) {  // round ends: the ticks next to the values
    const auto above = std::upper_bound(all.begin(), all.end(), min_ * (1 + 1e-9), below);
    if (above != all.begin()) min_ = std::prev(above)->value;
  }
  if (!axis_.max) {
    const auto above = std::upper_bound(all.begin(), all.end(), max_ * (1 - 1e-9), below);
    if (above != all.end()) max_ = above->value;
  }
  for (Tick& tick : all)
    if (tick.value >= min_ * (1 - 1e-9) && tick.value <= max_ * (1 + 1e-9)) ticks_.push_back(std::move(tick));
}

bool Ruler::labels_fit() const {
  const bool upwards = end_ < begin_;
  double last = -std::numeric_limits<double>::infinity();
  for (const Tick& tick : ticks_) {
    if (tick.label.empty()) continue;
    const double middle = std::abs(at(tick.value) - begin_);
    const double half = (upwards ? kTickSize : text_width(tick.label, kTickSize) + kTickSize / 2) / 2;
    if (middle - half < last) return false;
    last = middle + half;
  }
  return true;
}

std::string Ruler::label(double value) const { return tick_label(value, axis_.unit); }

bool Ruler::shows(double value) const { return std::isfinite(value) && (axis_.kind == AxisKind::linear || value > 0); }

double Ruler::at(double value) const {
  const bool log = axis_.kind == AxisKind::log;
  value = std::clamp(value, min_, max_);
  const double part = log ? std::log(value / min_) / std::log(max_ / min_) : (value - min_) / (max_ - min_);
  return begin_ + part * (end_ - begin_);
}

}  // namespace weft::draw
