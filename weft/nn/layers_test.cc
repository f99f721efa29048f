// Every layer's gradients against central differences in double, and the products against plain loops.
#include <gtest/gtest.h>

#include "weft/nn/adamw.h"
#include "weft/nn/gate.h"
#include "weft/nn/loss.h"
#include "weft/nn/reference_test.h"

namespace weft {
namespace {

using reference::dot;
using reference::Doubles;
using reference::expect_gradient;
using reference::floats;
using reference::random_doubles;

TEST(Products, AllThreeLayoutsAreThePlainSums) {
  for (const int threads : {1, 3})
    for (const ProductSizes s : {ProductSizes{5, 7, 3}, {100, 65, 1030}, {97, 130, 64}, {4, 0, 3}, {3, 4, 0}}) {
      ThreadPool pool(threads);
      Products products(&pool);
      const Doubles a = random_doubles(s.m * s.k, 1), b = random_doubles(s.k * s.n, 2);
      Doubles expected(static_cast<std::size_t>(s.m * s.n), 1.0);
      std::vector<float> at(a.size()), bt(b.size()), fa = floats(a), fb = floats(b);
      for (std::int64_t i = 0; i < s.m; ++i)
        for (std::int64_t p = 0; p < s.k; ++p) {
          at[static_cast<std::size_t>(p * s.m + i)] = fa[static_cast<std::size_t>(i * s.k + p)];
          for (std::int64_t j = 0; j < s.n; ++j)
            expected[static_cast<std::size_t>(i * s.n + j)] +=
                a[static_cast<std::size_t>(i * s.k + p)] * b[static_cast<std::size_t>(p * s.n + j)];
        }
      transpose_rows(s.k, s.n, {fb.data(), s.n}, {bt.data(), s.k});
      std::vector<float> c[4];
      for (auto& made : c) made.assign(expected.size(), 1.0f);
      products.times(s, {fa.data(), s.k}, {fb.data(), s.n}, {c[0].data(), s.n}, Into::add);
      products.times_transposed(s, {fa.data(), s.k}, {bt.data(), s.k}, {c[1].data(), s.n}, Into::add);
      products.transposed_times(s, {at.data(), s.m}, {fb.data(), s.n}, {c[2].data(), s.n}, Into::add);
      TileProduct().times(s, {fa.data(), s.k}, {fb.data(), s.n}, {c[3].data(), s.n}, Into::store);
      for (int layout = 0; layout < 4; ++layout)
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_NEAR(c[layout][i], expected[i] - (layout == 3 ? 1 : 0), 2e-4) << layout << " of " << s.m;
    }
}

TEST(Linear, GradientsAreThoseOfCentralDifferences) {
  constexpr std::int64_t kRows = 5, kIn = 6, kOut = 4;
  Doubles x = random_doubles(kRows * kIn, 1), w = random_doubles(kOut * kIn, 2), bias = random_doubles(kOut, 3);
  const Doubles dy = random_doubles(kRows * kOut, 4);
  ThreadPool pool(2);
  Products products(&pool);
  const std::vector<float> fx = floats(x), fw = floats(w), fbias = floats(bias), fdy = floats(dy);
  std::vector<float> dx(fx.size()), dw(fw.size()), db(fbias.size());
  const LinearLayer layer{kIn, kOut, fw.data(), fbias.data()};
  products.times({kRows, kIn, kOut}, {fdy.data(), kOut}, {fw.data(), kIn}, {dx.data(), kIn});
  linear_backward_weights(products, kRows, layer, {fx.data(), kIn}, {fdy.data(), kOut}, {dw.data(), db.data()});
  const auto loss = [&] { return dot(dy, reference::linear(x, w.data(), bias.data(), kIn, kOut)); };
  expect_gradient("x", x, dx, loss);
  expect_gradient("weight", w, dw, loss);
  expect_gradient("bias", bias, db, loss);
  std::vector<float> y(fdy.size());
  linear_forward(products, kRows, layer, {fx.data(), kIn}, {y.data(), kOut});
  const Doubles expected = reference::linear(x, w.data(), bias.data(), kIn, kOut);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-5);
}

TEST(Norm, GradientsAreThoseOfCentralDifferences) {
  constexpr std::int64_t kRows = 9, kCols = 7;
  constexpr float kEps = 0.05f;  // large enough that leaving it out would be seen
  for (const NormKind kind : {NormKind::rms, NormKind::layer}) {
    Doubles x = random_doubles(kRows * kCols, 1), w = random_doubles(kCols, 2), bias = random_doubles(kCols, 3);
    const Doubles dy = random_doubles(kRows * kCols, 4);
    ThreadPool pool(2);
    const std::vector<float> fx = floats(x), fw = floats(w), fbias = floats(bias), fdy = floats(dy);
    std::vector<float> dx(fx.size()), dw(fw.size()), db(fbias.size()), y(fx.size());
    const bool biased = kind == NormKind::layer;
    const Norm norm{kind, kCols, kEps, fw.data(), biased ? fbias.data() : nullptr};
    NormRows kept;
    norm_forward(pool, kRows, norm, {fx.data(), kCols}, {y.data(), kCols}, &kept);
    norm_backward(pool, kRows, norm, {fx.data(), kCols}, kept, {fdy.data(), kCols}, {dx.data(), kCols}, Into::store,
                  {dw.data(), biased ? db.data() : nullptr});
    const auto made = [&] { return reference::norm(x, kind, kCols, kEps, w.data(), biased ? bias.data() : nullptr); };
    const auto loss = [&] { return dot(dy, made()); };
    expect_gradient("x", x, dx, loss);
    expect_gradient("weight", w, dw, loss);
    if (biased) expect_gradient("bias", bias, db, loss);
    const Doubles expected = made();
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-5);
  }
}

TEST(Rotary, TurnsAsTheReferenceAndBackAgain) {
  const AttentionLayer layer{.sequence = 6, .sequences = 1, .head_dim = 4, .kv_of = {0, 0, 0}, .kv_heads = 1};
  const Doubles rates = {1.0, 0.1};
  Doubles x = random_doubles(6 * 12, 1);
  std::vector<float> turned = floats(x);
  const std::vector<float> before = turned;
  ThreadPool pool(1);
  const RotaryTable table = make_rotary_table(6, rates);
  rotate(pool, 6, 3, table, {turned.data(), 12}, Turn::forward);
  reference::rotate(x, layer, 3, rates);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(turned[i], x[i], 1e-6);
  rotate(pool, 6, 3, table, {turned.data(), 12}, Turn::backward);  // a rotation's transpose is its inverse
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(turned[i], before[i], 1e-6);
}

void check_attention(const AttentionLayer& layer) {
  const std::int64_t rows = layer.sequence * layer.sequences, d = layer.head_dim;
  Doubles q = random_doubles(rows * layer.heads() * d, 1, -2, 2),
          k = random_doubles(rows * layer.kv_heads * d, 2, -2, 2);
  Doubles v = random_doubles(rows * layer.kv_heads * d, 3);
  const Doubles dy = random_doubles(rows * layer.heads() * d, 4);
  const std::vector<float> fq = floats(q), fk = floats(k), fv = floats(v), fdy = floats(dy);
  std::vector<float> out(fq.size()), dq(fq.size()), dk(fk.size(), 9.0f), dv(fv.size(), 9.0f);
  ThreadPool pool(2);
  CausalAttention attention(layer);
  attention.forward(pool, {fq.data(), fk.data(), fv.data()}, out.data());
  attention.backward(pool, {fq.data(), fk.data(), fv.data()}, out.data(), fdy.data(),
                     {dq.data(), dk.data(), dv.data()});
  const Doubles expected = reference::attention(layer, q, k, v);
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-5) << i;
  if (layer.sequence > 20) return;  // differences of a long one would take minutes
  const auto loss = [&] { return dot(dy, reference::attention(layer, q, k, v)); };
  expect_gradient("q", q, dq, loss);
  expect_gradient("k", k, dk, loss);
  expect_gradient("v", v, dv, loss);
}

TEST(Attention, GradientsAreThoseOfCentralDifferences) {
  check_attention({.sequence = 9, .sequences = 2, .head_dim = 4, .kv_of = {0, 0, 1}, .kv_heads = 2});
  check_attention({.sequence = 12, .sequences = 1, .head_dim = 6, .kv_of = {0, 1}, .kv_heads = 2, .window = 5});
}

TEST(Attention, BlocksOfQueriesGiveTheWholeSoftmax) {
  check_attention({.sequence = 211, .sequences = 2, .head_dim = 8, .kv_of = {0, 1, 1}, .kv_heads = 2});
  check_attention({.sequence = 211, .sequences = 1, .head_dim = 8, .kv_of = {0}, .kv_heads = 1, .window = 40});
}

// Longer than a block of queries, where differences in all directions would take too long: one random direction.
TEST(Attention, GradientsHoldAcrossBlocks) {
  for (const std::int64_t window : {0, 70}) {
    const AttentionLayer layer{
        .sequence = 200, .sequences = 1, .head_dim = 4, .kv_of = {0, 0}, .kv_heads = 1, .window = window};
    Doubles in[3] = {random_doubles(200 * 8, 1, -2, 2), random_doubles(200 * 4, 2, -2, 2), random_doubles(200 * 4, 3)};
    const Doubles dy = random_doubles(200 * 8, 4);
    const std::vector<float> q = floats(in[0]), k = floats(in[1]), v = floats(in[2]), fdy = floats(dy);
    std::vector<float> out(q.size()),
        gradient[3] = {std::vector<float>(q.size()), std::vector<float>(k.size()), std::vector<float>(v.size())};
    ThreadPool pool(1);
    CausalAttention attention(layer);
    attention.forward(pool, {q.data(), k.data(), v.data()}, out.data());
    attention.backward(pool, {q.data(), k.data(), v.data()}, out.data(), fdy.data(),
                       {gradient[0].data(), gradient[1].data(), gradient[2].data()});
    for (int which = 0; which < 3; ++which) {
      const Doubles direction = random_doubles(static_cast<std::int64_t>(in[which].size()), 7);
      double along = 0, sides[2];
      for (std::size_t i = 0; i < direction.size(); ++i) along += direction[i] * gradient[which][i];
      for (const int side : {0, 1}) {
        Doubles moved[3] = {in[0], in[1], in[2]};
        for (std::size_t i = 0; i < direction.size(); ++i) moved[which][i] += (side == 0 ? 1e-5 : -1e-5) * direction[i];
        sides[side] = dot(dy, reference::attention(layer, moved[0], moved[1], moved[2]));
      }
      EXPECT_NEAR(along, (sides[0] - sides[1]) / 2e-5, 2e-4 * std::abs(along)) << which << " window " << window;
    }
  }
}

TEST(Gate, SiluGradientsAreThoseOfCentralDifferences) {
  Doubles gate = random_doubles(13, 1, -6, 6), up = random_doubles(13, 2);
  const Doubles dh = random_doubles(13, 3);
  std::vector<float> dgate = floats(gate), dup = floats(up), h(13);
  const std::vector<float> fdh = floats(dh);
  ThreadPool pool(1);
  silu_gate_forward(pool, 13, dgate.data(), dup.data(), h.data());
  silu_gate_backward(pool, 13, dgate.data(), dup.data(), fdh.data(), dgate.data(), dup.data());  // in place
  const auto loss = [&] {
    double sum = 0;
    for (std::size_t i = 0; i < gate.size(); ++i) sum += dh[i] * reference::silu(gate[i]) * up[i];
    return sum;
  };
  for (std::size_t i = 0; i < h.size(); ++i) EXPECT_NEAR(h[i], reference::silu(gate[i]) * up[i], 2e-6);
  expect_gradient("gate", gate, dgate, loss);
  expect_gradient("up", up, dup, loss);
}

TEST(Gate, ReluPassesWhatItLetThrough) {
  const std::vector<float> a = {-1, 2, 0, 3}, dh = {5, 6, 7, 8};
  std::vector<float> h(4), da(4);
  ThreadPool pool(1);
  relu_forward(pool, 4, a.data(), h.data());
  relu_backward(pool, 4, h.data(), dh.data(), da.data());
  EXPECT_EQ(h, (std::vector<float>{0, 2, 0, 3}));
  EXPECT_EQ(da, (std::vector<float>{0, 6, 0, 8}));
}

TEST(Loss, GradientIsThatOfCentralDifferencesAtAnyThreads) {
  Doubles y = random_doubles(9000, 1);
  const Doubles target = random_doubles(9000, 2);
  const std::vector<float> fy = floats(y), ft = floats(target);
  std::vector<float> dy(fy.size());
  ThreadPool one(1), three(3);
  const double loss = mean_square_loss(one, 9000, fy.data(), ft.data(), dy.data());
  EXPECT_EQ(loss, mean_square_loss(three, 9000, fy.data(), ft.data(), nullptr));
  double expected = 0;
  for (std::size_t i = 0; i < y.size(); ++i) expected += (y[i] - target[i]) * (y[i] - target[i]) / 9000;
  EXPECT_NEAR(loss, expected, 1e-6);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(dy[i], 2 * (y[i] - target[i]) / 9000, 1e-9);
}

// The published update, in double, step by step.
TEST(AdamW, StepsAreThePublishedOnes) {
  const AdamWOptions options{.beta1 = 0.8f, .beta2 = 0.9f, .eps = 1e-3f, .weight_decay = 0.1f};
  AdamW optimiser(3, options);
  std::vector<float> parameters = {1, -2, 3};
  Doubles expected(parameters.begin(), parameters.end()), mean(3), square(3);
  ThreadPool pool(1);
  for (int step = 1; step <= 4; ++step) {
    const float lr = 0.1f * static_cast<float>(step);
    const std::vector<float> gradients = {0.5f * static_cast<float>(step), -1.0f, 0.0f};
    optimiser.step(pool, lr, gradients, parameters);
    for (std::size_t i = 0; i < 3; ++i) {
      mean[i] = 0.8 * mean[i] + 0.2 * gradients[i];
      square[i] = 0.9 * square[i] + 0.1 * gradients[i] * gradients[i];
      const double m = mean[i] / (1 - std::pow(0.8, step)), v = square[i] / (1 - std::pow(0.9, step));
      expected[i] -= lr * (m / (std::sqrt(v) + 1e-3) + 0.1 * expected[i]);
      EXPECT_NEAR(parameters[i], expected[i], 1e-5) << step;
    }
  }
}

TEST(LearningRate, WarmsUpThenFallsAlongACosine) {
  const LearningRate rate{.peak = 2, .warm_up = 4, .steps = 14, .last = 0.1};
  EXPECT_DOUBLE_EQ(rate.at(0), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(3), 2);
  EXPECT_DOUBLE_EQ(rate.at(4), 2);
  EXPECT_NEAR(rate.at(9), 1.1, 1e-12);
  EXPECT_NEAR(rate.at(14), 0.2, 1e-12);
  EXPECT_DOUBLE_EQ((LearningRate{.peak = 3}).at(100), 3);
}

TEST(Clip, ScalesDownToTheLargestNorm) {
  const std::vector<float> gradients = {3, 4};
  EXPECT_FLOAT_EQ(clip_factor(sum_of_squares(gradients), 1), 0.2f);
  EXPECT_EQ(clip_factor(sum_of_squares(gradients), 6), 1.0f);
  EXPECT_EQ(clip_factor(sum_of_squares(gradients), 0), 1.0f);
}

}  // namespace
}  // namespace weft
