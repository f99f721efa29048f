#include "weft/nn/embedding.h"

#include <algorithm>

#include "weft/base/index.h"

namespace weft {

void embed_forward(ThreadPool& pool, std::int64_t cols, const float* table, std::span<const int> tokens, float* y) {
  share_out(pool, std::ssize(tokens), 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::copy_n(table + tokens[at(i)] * cols, cols, y + i * cols);
  });
}

// Threads share out columns, so every row is added to in the order of the tokens.
void embed_backward(ThreadPool& pool, std::int64_t cols, std::span<const int> tokens, const float* dy,
                    float* gradients) {
  share_out(pool, cols, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < std::ssize(tokens); ++i) {
      float* row = gradients + tokens[at(i)] * cols;
      for (std::int64_t j = begin; j < end; ++j) row[j] += dy[i * cols + j];
    }
  });
}

}  // namespace weft
