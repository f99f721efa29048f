#include "weft/nn/gate.h"

#include "weft/nn/exponential.h"

namespace weft {
namespace {

constexpr std::int64_t kGrain = 4096;

}  // namespace

void silu_gate_forward(ThreadPool& pool, std::int64_t count, const float* gate, const float* up, float* h) {
  share_out(pool, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_block(begin, end, [&](std::int64_t i, std::int64_t lanes) {
      const Floats g = load_floats(gate + i, lanes), u = load_floats(up + i, lanes);
      store_floats(g / (1.0f + exponential(-g)) * u, h + i, lanes);
    });
  });
}

// With s = 1 / (1 + exp(-g)): d silu(g) = s * (1 + g * (1 - s)).
void silu_gate_backward(ThreadPool& pool, std::int64_t count, const float* gate, const float* up, const float* dh,
                        float* dgate, float* dup) {
  share_out(pool, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for_each_block(begin, end, [&](std::int64_t i, std::int64_t lanes) {
      const Floats g = load_floats(gate + i, lanes), u = load_floats(up + i, lanes), d = load_floats(dh + i, lanes);
      const Floats s = 1.0f / (1.0f + exponential(-g));
      store_floats(d * u * s * (1.0f + g * (1.0f - s)), dgate + i, lanes);
      store_floats(d * g * s, dup + i, lanes);
    });
  });
}

void relu_forward(ThreadPool& pool, std::int64_t count, const float* a, float* h) {
  share_out(pool, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) h[i] = a[i] > 0 ? a[i] : 0.0f;
  });
}

void relu_backward(ThreadPool& pool, std::int64_t count, const float* h, const float* dh, float* da) {
  share_out(pool, count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) da[i] = h[i] > 0 ? dh[i] : 0.0f;
  });
}

}  // namespace weft
