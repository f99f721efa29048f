// The whole block of several ranks in its dropped form: gradients of every parameter of every rank against central
// differences of the same block in double.
#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/nn/reference_test.h"

namespace weft {
namespace {

using reference::Doubles;
using reference::expect_gradient;
using reference::floats;
using reference::random_doubles;

struct Case {
  std::vector<BlockShape> ranks;
  Doubles rates;
};

BlockShape llama_rank(std::vector<std::int32_t> kv_of, std::int64_t kv_heads, std::int64_t mlp, std::int64_t window) {
  return {.hidden = 8,
          .mlp = mlp,
          .attention = {.sequence = 5,
                        .sequences = 2,
                        .head_dim = 4,
                        .kv_of = std::move(kv_of),
                        .kv_heads = kv_heads,
                        .window = window},
          .eps = 0.01f};
}

BlockShape opt_rank(std::vector<std::int32_t> kv_of, std::int64_t mlp) {
  BlockShape shape = llama_rank(kv_of, std::ssize(kv_of), mlp, 0);
  Design& design = shape.design;
  design.norm = NormKind::layer;
  design.gated = false;
  design.activation = Activation::relu;
  design.qkv_bias = design.output_bias = design.mlp_bias = true;
  return shape;
}

// out = x + sum over ranks of (y + z), z fed with x + y: biases of the outputs are left out here, the caller's affair.
Doubles dropped(const Case& c, const std::vector<Doubles>& parameters, const Doubles& x) {
  Doubles out = x;
  for (std::size_t i = 0; i < c.ranks.size(); ++i) {
    const reference::Block block{.shape = c.ranks[i], .rates = c.rates};
    const Doubles y = block.attend(parameters[i], x);
    Doubles x1 = x;
    for (std::size_t j = 0; j < x.size() && !y.empty(); ++j) x1[j] += y[j];
    const Doubles z = block.feed(parameters[i], x1);
    for (std::size_t j = 0; j < x.size(); ++j) out[j] += (y.empty() ? 0 : y[j]) + (z.empty() ? 0 : z[j]);
  }
  return out;
}

void check_block(const Case& c) {
  const BlockShape& first = c.ranks[0];
  Doubles x = random_doubles(first.rows() * first.hidden, 1), target = random_doubles(first.rows() * first.hidden, 2);
  const std::vector<float> fx = floats(x);
  ThreadPool pool(2);
  const RotaryTable table = make_rotary_table(first.attention.sequence, c.rates);
  std::vector<Doubles> parameters;
  for (std::size_t i = 0; i < c.ranks.size(); ++i)
    parameters.push_back(random_doubles(BlockLayout(c.ranks[i]).size(), 10 + static_cast<unsigned>(i)));
  const auto loss = [&] {
    const Doubles out = dropped(c, parameters, x);
    double sum = 0;
    for (std::size_t j = 0; j < out.size(); ++j) sum += (out[j] - target[j]) * (out[j] - target[j]);
    return sum / static_cast<double>(out.size());
  };
  const Doubles out = dropped(c, parameters, x);
  std::vector<float> dout(out.size()), dx(out.size());
  for (std::size_t j = 0; j < out.size(); ++j)
    dout[j] = static_cast<float>(2 * (out[j] - target[j]) / static_cast<double>(out.size()));
  dx = dout;
  for (std::size_t i = 0; i < c.ranks.size(); ++i) {
    TransformerBlock block(c.ranks[i], c.rates.empty() ? nullptr : &table, &pool);
    const std::vector<float> p = floats(parameters[i]);
    std::vector<float> y(fx.size()), x1 = fx, z(fx.size()), dx1(fx.size()), dy = dout, from_y(fx.size());
    block.attend(p.data(), fx.data(), y.data());
    for (std::size_t j = 0; j < x1.size(); ++j) x1[j] += y[j];
    block.feed(p.data(), x1.data(), z.data());
    std::vector<float> gradients(p.size());
    block.feed_backward(p.data(), dout.data(), dx1.data(), gradients.data());
    for (std::size_t j = 0; j < dy.size(); ++j) dy[j] += dx1[j];
    block.attend_backward(p.data(), dy.data(), from_y.data(), gradients.data());
    for (std::size_t j = 0; j < dx.size(); ++j) dx[j] += dx1[j] + from_y[j];
    const std::int64_t skip = block.layout()[BlockParam::o_bias].begin, resume = block.layout().replicated();
    for (std::int64_t j = skip; j < resume; ++j) EXPECT_EQ(gradients[at(j)], 0.0f);
    for (const BlockParam param :
         {BlockParam::norm1_weight, BlockParam::norm1_bias, BlockParam::norm2_weight, BlockParam::norm2_bias,
          BlockParam::k_weight, BlockParam::v_weight, BlockParam::v_bias, BlockParam::q_weight, BlockParam::q_bias,
          BlockParam::o_weight, BlockParam::gate_weight, BlockParam::up_weight, BlockParam::up_bias,
          BlockParam::down_weight}) {  // the bias of k moves all scores of a query alike: no gradient
      const BlockLayout::Place place = block.layout()[param];
      if (place.size() == 0 || (c.ranks[i].attention.heads() == 0 && param == BlockParam::norm1_weight)) continue;
      const auto begin = num(place.begin), size = num(place.size());
      Doubles part(parameters[i].begin() + place.begin, parameters[i].begin() + place.begin + place.size());
      expect_gradient(
          "rank " + std::to_string(i) + " parameter " + std::to_string(static_cast<int>(param)), part,
          std::span<const float>(gradients).subspan(begin, size),
          [&] {
            std::copy(part.begin(), part.end(), parameters[i].begin() + place.begin);
            return loss();
          },
          3e-4);
      std::copy(part.begin(), part.end(), parameters[i].begin() + place.begin);
    }
  }
  expect_gradient("x", x, dx, loss, 3e-4);
}

TEST(TransformerBlock, GradientsOfADroppedLlamaBlockOnTwoRanks) {
  check_block({{llama_rank({0, 0, 1}, 2, 7, 0), llama_rank({0, 1}, 2, 6, 0)}, {1.0, 0.2}});
}

TEST(TransformerBlock, GradientsWithAWindowAndARankWithoutHeads) {
  check_block({{llama_rank({0}, 1, 6, 3), llama_rank({}, 0, 5, 3)}, {1.0, 0.2}});
}

TEST(TransformerBlock, GradientsOfADroppedOptBlockOnTwoRanks) {
  check_block({{opt_rank({0, 1}, 9), opt_rank({0}, 8)}, {}});
}

TEST(TransformerBlock, BitsDoNotDependOnThreads) {
  const BlockShape shape = llama_rank({0, 0, 1}, 2, 70, 0);
  const RotaryTable table = make_rotary_table(5, Doubles{1.0, 0.2});
  const std::vector<float> p = floats(random_doubles(BlockLayout(shape).size(), 1));
  const std::vector<float> x = floats(random_doubles(shape.rows() * shape.hidden, 2));
  std::vector<float> made[2];
  for (const int which : {0, 1}) {
    ThreadPool pool(which == 0 ? 1 : 3);
    TransformerBlock block(shape, &table, &pool);
    std::vector<float> y(x.size()), z(x.size()), dx1(x.size()), gradients(p.size());
    block.attend(p.data(), x.data(), y.data());
    block.feed(p.data(), y.data(), z.data());
    block.feed_backward(p.data(), x.data(), dx1.data(), gradients.data());
    block.attend_backward(p.data(), x.data(), nullptr, gradients.data());
    for (const auto* part : {&y, &z, &dx1, &gradients})
      made[which].insert(made[which].end(), part->begin(), part->end());
  }
  EXPECT_EQ(made[0], made[1]);
}

}  // namespace
}  // namespace weft
