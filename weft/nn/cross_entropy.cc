#include "weft/nn/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "weft/base/index.h"
#include "weft/nn/exponential.h"

namespace weft {
namespace {

// Loss of one row; the row becomes scale * (softmax - [j == target]).
double row_loss(std::int64_t vocab, int target, float scale, float* row) {
  const float top = *std::max_element(row, row + vocab), wanted = row[target] - top;
  double sum = 0;
  constexpr std::int64_t kRun = 256;  // floats added in f32 before they join the sum
  for (std::int64_t begin = 0; begin < vocab; begin += kRun) {
    Floats part = {};
    for_each_block(begin, std::min(vocab, begin + kRun), [&](std::int64_t j, std::int64_t lanes) {
      store_floats(exponential(load_floats(row + j, lanes) - top), row + j, lanes);
      part += load_floats(row + j, lanes);
    });
    sum += static_cast<double>((part[0] + part[2]) + (part[1] + part[3]));
  }
  const auto share = static_cast<float>(scale / sum);
  for (std::int64_t j = 0; j < vocab; ++j) row[j] *= share;
  row[target] -= scale;
  return std::log(sum) - wanted;
}

}  // namespace

double cross_entropy(ThreadPool& pool, std::int64_t vocab, std::span<const int> targets, float scale, float* logits) {
  std::vector<double> losses(targets.size());
  share_out(pool, std::ssize(targets), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      losses[at(i)] = row_loss(vocab, targets[at(i)], scale, logits + i * vocab);
  });
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

}  // namespace weft
