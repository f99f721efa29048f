// Rotary positions in the layout of Hugging Face: element j of a head and element j + pairs are one pair, turned by
// position * inverse_frequencies[j]. Scaling of frequencies is the caller's (it comes from the model's config).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

class RopeTable {
 public:
  // Angles of positions 0 to positions - 1, computed in float64 and kept as f32. `inverse_frequencies` has an entry
  // per pair; `scale` multiplies cosines and sines (the attention factor of some scalings; usually 1). Heads have
  // `head_dim` columns, of which the first ones turn; 0: all do.
  RopeTable(std::int64_t positions, std::span<const double> inverse_frequencies, double scale = 1,
            std::int64_t head_dim = 0);

  std::int64_t positions() const { return positions_; }
  std::int64_t head_dim() const { return head_dim_; }

  // Turns the heads of `rows` rows of x (rows, heads * head_dim) in place; row i is at position `position + i`, which
  // is below positions(), else bad_input.
  void apply(std::int64_t position, std::int64_t rows, std::int64_t heads, float* x, std::int64_t ldx) const;

 private:
  std::int64_t positions_, half_, head_dim_;
  std::vector<float> table_;  // (positions, [cosines (half) | sines (half)])
};

}  // namespace weft
