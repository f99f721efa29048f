// The mean of squared differences, and what the outputs are to blame for.
#pragma once

#include <cstdint>

#include "weft/nn/product.h"

namespace weft {

// The mean of (y - target)^2 over `count` elements; dy = 2 (y - target) / count where dy is not null; dy may be y.
// Summed in double over blocks of fixed size, so that it does not depend on the number of threads.
double mean_square_loss(ThreadPool& pool, std::int64_t count, const float* y, const float* target, float* dy);

}  // namespace weft
