// Token embedding and its backward pass: a row of the table for every token.
#pragma once

#include <cstdint>
#include <span>

#include "weft/nn/product.h"

namespace weft {

// y (tokens, cols) = rows of the table. Tokens are rows of the table that there are; the caller has checked them.
void embed_forward(ThreadPool& pool, std::int64_t cols, const float* table, std::span<const int> tokens, float* y);
// The rows' gradients are added to, token after token: their bits do not depend on the number of threads.
void embed_backward(ThreadPool& pool, std::int64_t cols, std::span<const int> tokens, const float* dy,
                    float* gradients);

}  // namespace weft
