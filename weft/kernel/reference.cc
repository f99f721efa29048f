#include "weft/kernel/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "weft/base/index.h"

namespace weft {
namespace {

void put(const Strip& strip, std::int64_t row, std::int64_t col, float value) {
  const std::int64_t at = row * strip.ld + col;
  if (strip.dtype == Dtype::bf16) {
    static_cast<bf16*>(strip.data)[at] = to_bf16(value);
  } else {
    static_cast<float*>(strip.data)[at] = value;
  }
}

template <typename Real>
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const ConstStrip& a, const ConstStrip& b, Real* c,
              std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      Real total = 0;
      for (std::int64_t p = 0; p < k; ++p)
        total += static_cast<Real>(element_at(a, i, p)) * static_cast<Real>(element_at(b, p, j));
      c[i * ldc + j] = total;
    }
}

}  // namespace

float element_at(const ConstStrip& strip, std::int64_t row, std::int64_t col) {
  if (strip.dtype == Dtype::int8) {
    const auto* block = static_cast<const std::byte*>(strip.data) + row * row_bytes(strip.dtype, strip.ld) +
                        col / kInt8Block * kInt8BlockBytes;
    bf16 scale;
    std::memcpy(&scale, block, sizeof scale);
    return to_float(scale) * static_cast<float>(static_cast<std::int8_t>(block[2 + col % kInt8Block]));
  }
  const std::int64_t at = row * strip.ld + col;
  if (strip.dtype == Dtype::bf16) return to_float(static_cast<const bf16*>(strip.data)[at]);
  if (strip.dtype == Dtype::f16) return to_float(static_cast<const f16*>(strip.data)[at]);
  return static_cast<const float*>(strip.data)[at];
}

void gemm_naive(std::int64_t m, std::int64_t n, std::int64_t k, const ConstStrip& a, const ConstStrip& b, float* c,
                std::int64_t ldc) {
  multiply<float>(m, n, k, a, b, c, ldc);
}

void gemm_f64(std::int64_t m, std::int64_t n, std::int64_t k, const ConstStrip& a, const ConstStrip& b, double* c,
              std::int64_t ldc) {
  multiply<double>(m, n, k, a, b, c, ldc);
}

void gemv_f64(std::int64_t rows, std::int64_t k, const ConstStrip& w, const float* x, double* y) {
  gemm_f64(rows, 1, k, w, {x, 1, Dtype::f32}, y, 1);
}

void embedding_bag_f64(const EmbeddingTable& table, const Bags& bags, Pooling pooling, std::int64_t begin,
                       std::int64_t end, double* out, std::int64_t ld) {
  for (std::int64_t b = begin; b < end; ++b) {
    const std::int64_t count = bags.offsets[b + 1] - bags.offsets[b];
    for (std::int64_t d = 0; d < table.dim; ++d) {
      double total = 0;
      for (std::int64_t i = bags.offsets[b]; i < bags.offsets[b + 1]; ++i)
        total += static_cast<double>(table.data[bags.indices[i] * table.dim + d]);
      if (pooling == Pooling::mean && count > 0) total /= static_cast<double>(count);
      out[(b - begin) * ld + d] = total;
    }
  }
}

double activation_f64(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 * std::numbers::inv_pi) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu_erf:
      return 0.5 * x * std::erfc(-x * std::numbers::sqrt2 / 2);
  }
  return x;
}

void rms_norm_f64(std::int64_t cols, const RmsNorm& norm, const float* x, double* y) {
  double squares = 0;
  for (std::int64_t j = 0; j < cols; ++j) squares += static_cast<double>(x[j]) * static_cast<double>(x[j]);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(norm.eps));
  for (std::int64_t j = 0; j < cols; ++j)
    y[j] = static_cast<double>(x[j]) * scale * static_cast<double>(norm.weight[j]);
}

void attention_f64(const AttentionShape& s, const float* q, const float* k, const float* v, double* y) {
  const auto dot = [&](const float* a, const float* b) {
    double total = 0;
    for (std::int64_t d = 0; d < s.qk_dim; ++d) total += static_cast<double>(a[d]) * static_cast<double>(b[d]);
    return total / std::sqrt(static_cast<double>(s.qk_dim));
  };
  for (std::int64_t h = 0; h < s.heads; ++h)
    for (std::int64_t i = 0; i < s.sequence; ++i) {
      const std::int64_t shared = h / (s.heads / s.kv_heads);
      std::vector<double> weights;
      for (std::int64_t j = 0; j <= i; ++j)
        weights.push_back(dot(q + i * s.ldq + h * s.qk_dim, k + j * s.ldk + shared * s.qk_dim));
      const double largest = *std::max_element(weights.begin(), weights.end());
      double sum = 0;
      for (double& weight : weights) sum += weight = std::exp(weight - largest);
      for (std::int64_t d = 0; d < s.v_dim; ++d) {
        double total = 0;
        for (std::int64_t j = 0; j <= i; ++j)
          total += weights[static_cast<std::size_t>(j)] * static_cast<double>(v[j * s.ldv + shared * s.v_dim + d]);
        y[(i * s.heads + h) * s.v_dim + d] = total / sum;
      }
    }
}

void sum_naive(std::int64_t rows, std::int64_t cols, std::span<const ConstStrip> sources, const Strip& target) {
  std::vector<float> totals(num(cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < cols; ++j) {
      float total = sources.empty() ? 0.0f : element_at(sources[0], r, j);
      for (std::size_t s = 1; s < sources.size(); ++s) total += element_at(sources[s], r, j);
      totals[static_cast<std::size_t>(j)] = total;
    }
    if (target.dtype == Dtype::int8)
      quantise_naive(cols, totals.data(), static_cast<std::byte*>(target.data) + r * row_bytes(Dtype::int8, target.ld));
    else
      for (std::int64_t j = 0; j < cols; ++j) put(target, r, j, totals[static_cast<std::size_t>(j)]);
  }
}

void quantise_naive(std::int64_t count, const float* values, std::byte* blocks) {
  for (std::int64_t first = 0; first < count; first += kInt8Block, blocks += kInt8BlockBytes) {
    const std::int64_t size = std::min(kInt8Block, count - first);
    float most = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const float magnitude = std::abs(values[first + i]);
      if (!(magnitude <= most)) most = std::isnan(magnitude) ? INFINITY : magnitude;
    }
    const bf16 scale = int8_scale(most);
    const float wide = to_float(scale), inverse = wide > 0 ? 1.0f / wide : 0.0f;
    std::memcpy(blocks, &scale, sizeof scale);
    for (std::int64_t i = 0; i < size; ++i)
      blocks[2 + i] = static_cast<std::byte>(inverse > 0 ? std::lrintf(values[first + i] * inverse) : 0);
  }
}

}  // namespace weft
