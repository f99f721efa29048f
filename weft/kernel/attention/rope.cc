#include "weft/kernel/attention/rope.h"

#include <cmath>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {

RopeTable::RopeTable(std::int64_t positions, std::span<const double> inverse_frequencies, double scale,
                     std::int64_t head_dim)
    : positions_(positions), half_(std::ssize(inverse_frequencies)), head_dim_(head_dim == 0 ? 2 * half_ : head_dim) {
  if (positions < 1 || half_ < 1)
    bad_input("rotary positions: {} positions of {} frequencies; both must be at least 1", positions, half_);
  if (head_dim_ < 2 * half_)
    bad_input("rotary positions: {} pairs turn in heads of {} columns; use at most {}", half_, head_dim_,
              head_dim_ / 2);
  table_.resize(num(positions * half_ * 2));
  float* row = table_.data();
  for (std::int64_t p = 0; p < positions; ++p, row += 2 * half_)
    for (std::int64_t j = 0; j < half_; ++j) {
      const double angle = static_cast<double>(p) * inverse_frequencies[at(j)];
      row[j] = static_cast<float>(std::cos(angle) * scale);
      row[half_ + j] = static_cast<float>(std::sin(angle) * scale);
    }
}

void RopeTable::apply(std::int64_t position, std::int64_t rows, std::int64_t heads, float* x, std::int64_t ldx) const {
  if (position < 0 || rows < 0 || position + rows > positions_)
    bad_input("positions {} to {} are outside of the {} that were tabled", position, position + rows, positions_);
  for (std::int64_t i = 0; i < rows; ++i, x += ldx) {
    const float* cosines = table_.data() + (position + i) * 2 * half_;
    const float* sines = cosines + half_;
    for (std::int64_t h = 0; h < heads; ++h) {
      float* __restrict first = x + h * head_dim_;
      float* __restrict second = first + half_;
      for (std::int64_t j = 0; j < half_; ++j) {
        const float a = first[j], b = second[j];
        first[j] = a * cosines[j] - b * sines[j];
        second[j] = b * cosines[j] + a * sines[j];
      }
    }
  }
}

}  // namespace weft
