// The layers written out in double, one loop an index, and central differences of them: what the gradients of weft/nn
// are held against. In double the differences are good to about 1e-9, so a test sees the rounding of f32 and nothing
// else.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/nn/block.h"

namespace weft::reference {

using Doubles = std::vector<double>;

inline Doubles random_doubles(std::int64_t count, unsigned seed, double low = -1, double high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> distribution(static_cast<float>(low), static_cast<float>(high));
  Doubles values(num(count));
  for (double& value : values) value = distribution(engine);  // floats, so that both sides begin with the same
  return values;
}

inline std::vector<float> floats(const Doubles& values) { return {values.begin(), values.end()}; }

inline double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

inline Doubles linear(const Doubles& x, const double* w, const double* bias, std::int64_t in, std::int64_t out) {
  const std::int64_t rows = in == 0 ? 0 : std::ssize(x) / in;
  Doubles y(num(rows * out));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = bias != nullptr ? bias[o] : 0;
      for (std::int64_t j = 0; j < in; ++j) sum += x[static_cast<std::size_t>(i * in + j)] * w[o * in + j];
      y[static_cast<std::size_t>(i * out + o)] = sum;
    }
  return y;
}

inline Doubles norm(const Doubles& x, NormKind kind, std::int64_t cols, double eps, const double* w, const double* b) {
  Doubles y = x;
  for (double* row = y.data(); row < y.data() + y.size(); row += cols) {
    double mean = 0, squares = 0;
    if (kind == NormKind::layer)
      for (std::int64_t j = 0; j < cols; ++j) mean += row[j] / static_cast<double>(cols);
    for (std::int64_t j = 0; j < cols; ++j) squares += (row[j] - mean) * (row[j] - mean) / static_cast<double>(cols);
    for (std::int64_t j = 0; j < cols; ++j)
      row[j] = (row[j] - mean) / std::sqrt(squares + eps) * w[j] + (b != nullptr ? b[j] : 0);
  }
  return y;
}

inline void rotate(Doubles& x, const AttentionLayer& layer, std::int64_t heads, const Doubles& rates) {
  const std::int64_t d = layer.head_dim, half = d / 2;
  for (std::int64_t i = 0; i < layer.sequences * layer.sequence; ++i)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t j = 0; j < half; ++j) {
        const double angle = static_cast<double>(i % layer.sequence) * rates[static_cast<std::size_t>(j)];
        double& a = x[static_cast<std::size_t>((i * heads + h) * d + j)];
        double& b = x[static_cast<std::size_t>((i * heads + h) * d + j + half)];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned;
      }
}

inline Doubles attention(const AttentionLayer& layer, const Doubles& q, const Doubles& k, const Doubles& v) {
  const std::int64_t d = layer.head_dim, heads = layer.heads(), kv_heads = layer.kv_heads;
  Doubles out(q.size());
  const auto at = [&](std::int64_t row, std::int64_t of, std::int64_t head) { return num((row * of + head) * d); };
  for (std::int64_t row = 0; row < layer.sequences * layer.sequence; ++row)
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t start = row / layer.sequence * layer.sequence, kv = layer.kv_of[static_cast<std::size_t>(h)];
      const std::int64_t first = layer.window > 0 ? std::max(start, row - layer.window + 1) : start;
      Doubles weights;
      double sum = 0;
      for (std::int64_t key = first; key <= row; ++key) {
        double score = 0;
        for (std::int64_t j = 0; j < d; ++j) score += q[at(row, heads, h) + num(j)] * k[at(key, kv_heads, kv) + num(j)];
        weights.push_back(std::exp(score / std::sqrt(static_cast<double>(d))));
        sum += weights.back();
      }
      for (std::int64_t key = first; key <= row; ++key)
        for (std::int64_t j = 0; j < d; ++j)
          out[at(row, heads, h) + num(j)] +=
              weights[static_cast<std::size_t>(key - first)] / sum * v[at(key, kv_heads, kv) + num(j)];
    }
  return out;
}

inline double silu(double x) { return x / (1 + std::exp(-x)); }

struct Block {  // both halves of one rank's block
  BlockShape shape;
  BlockLayout layout{shape};
  Doubles rates;  // of rotary positions; empty: none

  Doubles attend(const Doubles& p, const Doubles& x) const {
    const auto at = [&](BlockParam param) { return layout.at(p.data(), param); };
    const Doubles a =
        norm(x, shape.design.norm, shape.hidden, shape.eps, at(BlockParam::norm1_weight), at(BlockParam::norm1_bias));
    Doubles q = linear(a, at(BlockParam::q_weight), at(BlockParam::q_bias), shape.hidden, shape.q_cols());
    Doubles k = linear(a, at(BlockParam::k_weight), at(BlockParam::k_bias), shape.hidden, shape.kv_cols());
    const Doubles v = linear(a, at(BlockParam::v_weight), at(BlockParam::v_bias), shape.hidden, shape.kv_cols());
    if (!rates.empty()) rotate(q, shape.attention, shape.attention.heads(), rates);
    if (!rates.empty()) rotate(k, shape.attention, shape.attention.kv_heads, rates);
    return linear(attention(shape.attention, q, k, v), at(BlockParam::o_weight), nullptr, shape.q_cols(), shape.hidden);
  }
  Doubles feed(const Doubles& p, const Doubles& x1) const {
    const auto at = [&](BlockParam param) { return layout.at(p.data(), param); };
    const Doubles b =
        norm(x1, shape.design.norm, shape.hidden, shape.eps, at(BlockParam::norm2_weight), at(BlockParam::norm2_bias));
    Doubles h = linear(b, at(BlockParam::up_weight), at(BlockParam::up_bias), shape.hidden, shape.mlp);
    Doubles gate;
    if (shape.design.gated)
      gate = linear(b, at(BlockParam::gate_weight), at(BlockParam::gate_bias), shape.hidden, shape.mlp);
    for (std::size_t i = 0; i < h.size(); ++i) h[i] = shape.design.gated ? silu(gate[i]) * h[i] : std::max(h[i], 0.0);
    return linear(h, at(BlockParam::down_weight), nullptr, shape.mlp, shape.hidden);
  }
};

// Central differences of `loss` in every element of `values` against `gradient`: their distance may be `tolerance` of
// the larger of the difference and the root mean square of them all.
inline void expect_gradient(const std::string& what, Doubles& values, std::span<const float> gradient,
                            const std::function<double()>& loss, double tolerance = 1e-4) {
  ASSERT_EQ(values.size(), gradient.size()) << what;
  constexpr double kStep = 1e-5;
  Doubles differences;
  double squares = 0;
  for (double& value : values) {
    const double kept = value;
    value = kept + kStep;
    const double above = loss();
    value = kept - kStep;
    differences.push_back((above - loss()) / (2 * kStep));
    value = kept;
    squares += differences.back() * differences.back() / static_cast<double>(values.size());
  }
  EXPECT_GT(squares, 0) << what << ": a gradient of zero checks nothing";
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(gradient[i], differences[i], tolerance * std::max(std::abs(differences[i]), std::sqrt(squares)))
        << what << " " << i;
}

}  // namespace weft::reference
