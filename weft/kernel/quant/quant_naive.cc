// The obvious twin of products with weights in blocks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/kernel/quant/quant_rows.h"
#include "weft/kernel/quant/variant.h"

namespace weft {
namespace {

float largest_magnitude(std::span<const float> x) {
  float most = 0;
  for (const float value : x) most = std::isfinite(value) ? std::max(most, std::abs(value)) : INFINITY;
  return most;
}

// x by steps of `step`, which are counted from the first column of w's first block, `before` columns before x.
template <typename Each>
void for_each_stretch(std::span<const float> x, std::int64_t before, std::int64_t step, const Each& each) {
  for (std::int64_t begin = -(before % step); begin < std::ssize(x); begin += step) {
    const std::int64_t low = std::max<std::int64_t>(begin, 0),
                       high = std::min<std::int64_t>(begin + step, std::ssize(x));
    each(x.subspan(num(low), num(high - low)), low);
  }
}

std::vector<double> rounded_values(std::span<const float> x, std::int64_t before, Dtype dtype) {
  std::vector<double> out(x.size());
  const std::int64_t block = block_shape(dtype).values;
  for_each_stretch(x, before, block, [&](std::span<const float> values, std::int64_t at_block) {
    const float most = largest_magnitude(values);
    const int factors = block == kPart ? 1 : largest_factor(dtype);
    const float scale = most < 0x1p-100f ? 0 : most / static_cast<float>(127 * factors);
    for_each_stretch(values, before + at_block, kPart, [&](std::span<const float> part, std::int64_t at_part) {
      const float wanted = std::ceil(largest_magnitude(part) * (static_cast<float>(factors) / most));
      const float step = scale * std::clamp(wanted, 1.0f, static_cast<float>(factors));
      for (std::size_t j = 0; j < part.size(); ++j)
        out[num(at_block + at_part) + j] = std::isinf(most) ? std::numeric_limits<double>::quiet_NaN()
                                           : scale == 0
                                               ? 0
                                               : static_cast<double>(step) * std::nearbyintf(part[j] * (1 / step));
    });
  });
  return out;
}

}  // namespace

void quant_matmul_naive(std::int64_t m, const QuantWeight& w, const float* x, std::int64_t ldx, double* y,
                        std::int64_t ldy) {
  std::vector<float> row(num(w.cols));
  for (std::int64_t r = 0; r < w.rows; ++r) {
    dequantise(w.dtype, w.data + r * row_bytes(w.dtype, w.ld), w.first, w.cols, row.data());
    for (std::int64_t i = 0; i < m; ++i) {
      const std::vector<double> rounded = rounded_values({x + i * ldx, num(w.cols)}, w.first, w.dtype);
      double sum = 0;
      for (std::size_t p = 0; p < row.size(); ++p) sum += row[p] * rounded[p];
      y[i * ldy + r] = sum + (w.bias == nullptr ? 0 : w.bias[r]);
    }
  }
}

}  // namespace weft
