// What lies between the two products of a feed-forward layer, and back: silu(gate) * up, or relu.
#pragma once

#include <cstdint>

#include "weft/nn/product.h"

namespace weft {

// h = silu(gate) * up, each (rows, cols) and contiguous.
void silu_gate_forward(ThreadPool& pool, std::int64_t count, const float* gate, const float* up, float* h);
// dgate and dup may be gate and up.
void silu_gate_backward(ThreadPool& pool, std::int64_t count, const float* gate, const float* up, const float* dh,
                        float* dgate, float* dup);

// h = max(a, 0)
void relu_forward(ThreadPool& pool, std::int64_t count, const float* a, float* h);
// da = dh where h > 0, else 0; da may be dh.
void relu_backward(ThreadPool& pool, std::int64_t count, const float* h, const float* dh, float* da);

}  // namespace weft
