// Rotary positions, described: which columns of a head turn, how fast, and how the rates were changed for texts longer
// than those first trained on. The kinds are those of Hugging Face's files.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

enum class RotaryKind {
  plain,
  linear,    // all rates divided by factor
  dynamic,   // up to the model's longest text the rates are unchanged, and longer texts are refused: equals plain
  llama3,    // slow rates divided by factor, fast ones kept, those between blended
  yarn,      // the same with other bounds, and scores that grow
  longrope,  // every rate has a divisor of its own: one list for short texts, one for long ones
};

struct RotaryDesign {
  RotaryKind kind = RotaryKind::plain;
  double theta = 10000;
  std::int64_t columns = 0;  // of a head that turn, the first ones; even; the rest stays
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3: turns within the first training's length
  double beta_fast = 32, beta_slow = 1;              // yarn: likewise
  bool whole_bounds = true;                          // yarn: bounds between columns are rounded
  double original_positions = 0;                     // llama3, yarn, longrope: length of the first training's texts
  double magnitude = 1;                              // cosines and sines are multiplied with it
  std::vector<double> short_factors, long_factors;   // longrope, (columns / 2)

  friend bool operator==(const RotaryDesign&, const RotaryDesign&) = default;
};

// Angle per position of pair i (of columns / 2). `positions` is how long texts may become: longrope has other rates for
// long ones, and one text keeps its rates from its first token to its last.
std::vector<double> rotary_rates(const RotaryDesign& rotary, std::int64_t positions);

}  // namespace weft
