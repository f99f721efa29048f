// Rotary positions in the layout of Hugging Face: element j of a head and element j + head_dim / 2 are one pair, turned
// by position * inverse_frequencies[j]. Scaling of frequencies is the caller's (it comes from the model's config).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

class RopeTable {
 public:
  // Angles of positions 0 to positions - 1, computed in float64 and kept as f32. `inverse_frequencies` has head_dim / 2
  // entries; `scale` multiplies cosines and sines (the attention factor of some scalings; usually 1).
  RopeTable(std::int64_t positions, std::span<const double> inverse_frequencies, double scale = 1);

  std::int64_t positions() const { return positions_; }
  std::int64_t head_dim() const { return 2 * half_; }

  // Turns the heads of `rows` rows of x (rows, heads * head_dim) in place; row i is at position `position + i`, which
  // is below positions(), else bad_input.
  void apply(std::int64_t position, std::int64_t rows, std::int64_t heads, float* x, std::int64_t ldx) const;

 private:
  std::int64_t positions_, half_;
  std::vector<float> table_;  // (positions, [cosines (half) | sines (half)])
};

}  // namespace weft
