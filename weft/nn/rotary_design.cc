#include "weft/nn/rotary_design.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "weft/base/index.h"

namespace weft {
namespace {

double llama3_rate(const RotaryDesign& r, double rate) {
  const double turns = r.original_positions * rate / (2 * std::numbers::pi);  // within the first training's length
  const double kept = std::clamp((turns - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor), 0.0, 1.0);
  return (1 - kept) * rate / r.factor + kept * rate;
}

// The pair, as a real number, that makes so many turns within the first training's length.
double pair_of_turns(const RotaryDesign& r, double turns) {
  const double columns = static_cast<double>(r.columns);
  return columns * std::log(r.original_positions / (turns * 2 * std::numbers::pi)) / (2 * std::log(r.theta));
}

double yarn_rate(const RotaryDesign& r, double pair, double rate) {
  double low = pair_of_turns(r, r.beta_fast), high = pair_of_turns(r, r.beta_slow);
  if (r.whole_bounds) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(r.columns - 1));
  if (low == high) high += 0.001;
  const double divided = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  return divided * rate / r.factor + (1 - divided) * rate;
}

}  // namespace

std::vector<double> rotary_rates(const RotaryDesign& r, std::int64_t positions) {
  std::vector<double> rates(num(r.columns / 2));
  const bool is_long = static_cast<double>(positions) > r.original_positions;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double rate = std::pow(r.theta, -2.0 * static_cast<double>(i) / static_cast<double>(r.columns));
    switch (r.kind) {
      case RotaryKind::plain:
      case RotaryKind::dynamic:
        rates[i] = rate;
        break;
      case RotaryKind::linear:
        rates[i] = rate / r.factor;
        break;
      case RotaryKind::llama3:
        rates[i] = llama3_rate(r, rate);
        break;
      case RotaryKind::yarn:
        rates[i] = yarn_rate(r, static_cast<double>(i), rate);
        break;
      case RotaryKind::longrope:
        rates[i] = rate / (is_long ? r.long_factors : r.short_factors)[i];
        break;
    }
  }
  return rates;
}

}  // namespace weft
