// The loss of a language model: minus the logarithm of what the softmax of a row gives to its target.
#pragma once

#include <cstdint>
#include <span>

#include "weft/nn/product.h"

namespace weft {

// The sum over all rows. Logits (rows, vocab) become their own gradients, times `scale`. A row's bits depend on that
// row alone, and rows are added up in order.
double cross_entropy(ThreadPool& pool, std::int64_t vocab, std::span<const int> targets, float scale, float* logits);

}  // namespace weft
