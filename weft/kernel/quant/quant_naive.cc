// The obvious twin of products with weights in blocks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "weft/base/index.h"
#include "weft/base/quant/blocks.h"
#include "weft/kernel/quant/quant_rows.h"

namespace weft {
namespace {

// Parts are counted from the first column of w's first block.
std::vector<double> rounded_values(const float* x, std::int64_t count, std::int64_t before) {
  std::vector<double> out(num(count));
  for (std::int64_t begin = -before; begin < count; begin += kPart) {
    const std::int64_t low = std::max<std::int64_t>(begin, 0), high = std::min(begin + kPart, count);
    float most = 0;
    bool finite = true;
    for (std::int64_t j = low; j < high; ++j) most = std::max(most, std::abs(x[j])), finite &= std::isfinite(x[j]);
    const float d = most < 0x1p-100f ? 0 : most / 127, inverse = d == 0 ? 0 : 1 / d;
    for (std::int64_t j = low; j < high; ++j)
      out[at(j)] =
          finite ? static_cast<double>(d) * std::nearbyintf(x[j] * inverse) : std::numeric_limits<double>::quiet_NaN();
  }
  return out;
}

}  // namespace

void quant_matmul_naive(std::int64_t m, const QuantWeight& w, const float* x, std::int64_t ldx, double* y,
                        std::int64_t ldy) {
  std::vector<float> row(num(w.cols));
  for (std::int64_t r = 0; r < w.rows; ++r) {
    dequantise(w.dtype, w.data + r * row_bytes(w.dtype, w.ld), w.first, w.cols, row.data());
    for (std::int64_t i = 0; i < m; ++i) {
      const std::vector<double> rounded = rounded_values(x + i * ldx, w.cols, w.first);
      double sum = 0;
      for (std::size_t p = 0; p < row.size(); ++p) sum += row[p] * rounded[p];
      y[i * ldy + r] = sum + (w.bias == nullptr ? 0 : w.bias[r]);
    }
  }
}

}  // namespace weft
