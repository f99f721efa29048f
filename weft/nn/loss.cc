#include "weft/nn/loss.h"

#include <vector>

#include "weft/base/index.h"

namespace weft {

double mean_square_loss(ThreadPool& pool, std::int64_t count, const float* y, const float* target, float* dy) {
  constexpr std::int64_t kBlock = 4096;
  std::vector<double> sums(num((count + kBlock - 1) / kBlock));
  const float factor = 2.0f / static_cast<float>(count);
  share_out(pool, count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float difference = y[i] - target[i];
      sums[at(i / kBlock)] += static_cast<double>(difference) * difference;
      if (dy != nullptr) dy[i] = factor * difference;
    }
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

}  // namespace weft
