#include "weft/nn/rotary.h"

#include <cmath>
#include <iterator>

namespace weft {

RotaryTable make_rotary_table(std::int64_t positions, std::span<const double> inverse_frequencies, double magnitude) {
  RotaryTable table{.head_dim = 2 * std::ssize(inverse_frequencies)};
  for (std::int64_t position = 0; position < positions; ++position)
    for (const double frequency : inverse_frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      table.cos.push_back(static_cast<float>(std::cos(angle) * magnitude));
      table.sin.push_back(static_cast<float>(std::sin(angle) * magnitude));
    }
  return table;
}

void rotate(ThreadPool& pool, std::int64_t rows, std::int64_t heads, const RotaryTable& table, RowsOut x, Turn turn) {
  const std::int64_t half = table.head_dim / 2;
  const float sign = turn == Turn::forward ? 1.0f : -1.0f;
  share_out(pool, rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float *cos = table.cos.data() + i * half, *sin = table.sin.data() + i * half;
      for (std::int64_t h = 0; h < heads; ++h) {
        float* head = x.data + i * x.ld + h * table.head_dim;
        for (std::int64_t j = 0; j < half; ++j) {
          const float a = head[j], b = head[j + half], s = sign * sin[j];
          head[j] = a * cos[j] - b * s;
          head[j + half] = b * cos[j] + a * s;
        }
      }
    }
  });
}

}  // namespace weft
