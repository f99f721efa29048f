#include "weft/nn/block.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/nn/gate.h"

namespace weft {
namespace {

std::size_t count(std::int64_t rows, std::int64_t cols) { return static_cast<std::size_t>(rows * cols); }

}  // namespace

BlockLayout::BlockLayout(const BlockShape& s) {
  const Design& d = s.design;
  const std::int64_t norm_bias = d.norm == NormKind::layer ? s.hidden : 0;
  const std::int64_t q_bias = d.qkv_bias ? s.q_cols() : 0, kv_bias = d.qkv_bias ? s.kv_cols() : 0;
  const std::int64_t o_bias = d.output_bias ? s.hidden : 0, down_bias = d.mlp_bias ? s.hidden : 0;
  const std::int64_t up_bias = d.mlp_bias ? s.mlp : 0, gate = d.gated ? s.mlp : 0;
  places_ = {Place{0, s.hidden, 1},
             Place{0, norm_bias, 1},
             Place{0, s.hidden, 1},
             Place{0, norm_bias, 1},
             Place{0, o_bias, 1},
             Place{0, down_bias, 1},
             Place{0, s.kv_cols(), s.hidden},
             Place{0, kv_bias, 1},
             Place{0, s.kv_cols(), s.hidden},
             Place{0, kv_bias, 1},
             Place{0, s.q_cols(), s.hidden},
             Place{0, q_bias, 1},
             Place{0, s.hidden, s.q_cols()},
             Place{0, gate, s.hidden},
             Place{0, d.gated ? up_bias : 0, 1},
             Place{0, s.mlp, s.hidden},
             Place{0, up_bias, 1},
             Place{0, s.hidden, s.mlp}};
  for (Place& place : places_) {
    place.begin = size_;
    size_ += place.size();
  }
}

void BlockActivations::resize(const BlockShape& shape) {
  const std::int64_t rows = shape.rows();
  for (auto* wide : {&a, &b}) wide->resize(count(rows, shape.hidden));
  for (auto* queries : {&q, &o}) queries->resize(count(rows, shape.q_cols()));
  for (auto* keys : {&k, &v}) keys->resize(count(rows, shape.kv_cols()));
  for (auto* middle : {&up, &h}) middle->resize(count(rows, shape.mlp));
  if (shape.design.gated) gate.resize(count(rows, shape.mlp));
}

TransformerBlock::TransformerBlock(const BlockShape& shape, const RotaryTable* rotary, ThreadPool* pool)
    : shape_(shape),
      layout_(shape),
      rotary_(rotary),
      products_(pool),
      attention_(shape.attention),
      own_(std::make_unique<BlockActivations>()),
      kept_(own_.get()) {
  if (const std::string why = why_not_trainable(shape.design); !why.empty())
    bad_input("a block cannot be trained: {}; use a model of Llama's, Mistral's, Qwen2's or OPT's design", why);
  const std::int64_t rows = shape.rows();
  da_.resize(count(rows, shape.hidden));
  for (auto* queries : {&dq_, &do_}) queries->resize(count(rows, shape.q_cols()));
  for (auto* keys : {&dk_, &dv_}) keys->resize(count(rows, shape.kv_cols()));
  dh_.resize(count(rows, shape.mlp));
}

void TransformerBlock::keep_in(BlockActivations* kept) {
  own_.reset();
  kept_ = kept;
  attention_.keep_in(&kept->weights);
}

LinearLayer TransformerBlock::linear(const float* parameters, BlockParam weight, BlockParam bias) const {
  return {layout_[weight].cols, layout_[weight].rows, parameters + layout_[weight].begin,
          weight == bias ? nullptr : layout_.at(parameters, bias)};
}

LinearGradients TransformerBlock::linear_gradients(float* gradients, BlockParam weight, BlockParam bias) const {
  return {gradients + layout_[weight].begin, weight == bias ? nullptr : layout_.at(gradients, bias)};
}

Norm TransformerBlock::norm(const float* parameters, BlockParam weight, BlockParam bias) const {
  return {shape_.design.norm, shape_.hidden, shape_.eps, layout_.at(parameters, weight), layout_.at(parameters, bias)};
}

void TransformerBlock::rotate_heads(Turn turn, float* q, float* k) {
  if (rotary_ == nullptr) return;
  const AttentionLayer& heads = shape_.attention;
  for (std::int64_t s = 0; s < heads.sequences; ++s) {
    const std::int64_t row = s * heads.sequence;
    rotate(products_.pool(), heads.sequence, heads.heads(), *rotary_, {q + row * shape_.q_cols(), shape_.q_cols()},
           turn);
    rotate(products_.pool(), heads.sequence, heads.kv_heads, *rotary_, {k + row * shape_.kv_cols(), shape_.kv_cols()},
           turn);
  }
}

void TransformerBlock::attend(const float* parameters, const float* x, float* y) {
  const std::int64_t rows = shape_.rows(), hidden = shape_.hidden, q_cols = shape_.q_cols(), kv_cols = shape_.kv_cols();
  BlockActivations& in = kept();
  in.resize(shape_);
  in.x = x;
  norm_forward(products_.pool(), rows, norm(parameters, BlockParam::norm1_weight, BlockParam::norm1_bias), {x, hidden},
               {in.a.data(), hidden}, &in.rows1);
  const RowsIn a{in.a.data(), hidden};
  linear_forward(products_, rows, linear(parameters, BlockParam::q_weight, BlockParam::q_bias), a,
                 {in.q.data(), q_cols});
  linear_forward(products_, rows, linear(parameters, BlockParam::k_weight, BlockParam::k_bias), a,
                 {in.k.data(), kv_cols});
  linear_forward(products_, rows, linear(parameters, BlockParam::v_weight, BlockParam::v_bias), a,
                 {in.v.data(), kv_cols});
  rotate_heads(Turn::forward, in.q.data(), in.k.data());
  attention_.forward(products_.pool(), {in.q.data(), in.k.data(), in.v.data()}, in.o.data());
  linear_forward(products_, rows, linear(parameters, BlockParam::o_weight, BlockParam::o_weight), {in.o.data(), q_cols},
                 {y, hidden});
}

void TransformerBlock::attend_backward(const float* parameters, const float* dy, float* dx, float* gradients,
                                       BackwardPart part) {
  const std::int64_t rows = shape_.rows(), hidden = shape_.hidden, q_cols = shape_.q_cols();
  BlockActivations& in = kept();
  const auto back = [&](BlockParam weight, const std::vector<float>& from, RowsOut to, Into into) {
    products_.times({rows, layout_[weight].cols, layout_[weight].rows}, {from.data(), layout_[weight].rows},
                    {parameters + layout_[weight].begin, layout_[weight].cols}, to, into);
  };
  if (part != BackwardPart::weights) {
    products_.times({rows, q_cols, hidden}, {dy, hidden}, {layout_.at(parameters, BlockParam::o_weight), q_cols},
                    {do_.data(), q_cols});
    attention_.backward(products_.pool(), {in.q.data(), in.k.data(), in.v.data()}, in.o.data(), do_.data(),
                        {dq_.data(), dk_.data(), dv_.data()});
    rotate_heads(Turn::backward, dq_.data(), dk_.data());
    const RowsOut da{da_.data(), hidden};
    back(BlockParam::q_weight, dq_, da, Into::store);
    back(BlockParam::k_weight, dk_, da, Into::add);
    back(BlockParam::v_weight, dv_, da, Into::add);
    norm_backward(products_.pool(), rows, norm(parameters, BlockParam::norm1_weight, BlockParam::norm1_bias),
                  {in.x, hidden}, in.rows1, {da_.data(), hidden}, {dx, hidden}, Into::store,
                  {gradients + layout_[BlockParam::norm1_weight].begin, layout_.at(gradients, BlockParam::norm1_bias)});
  }
  if (part != BackwardPart::input) attend_weights(parameters, dy, gradients);
}

void TransformerBlock::attend_weights(const float* parameters, const float* dy, float* gradients) {
  const std::int64_t rows = shape_.rows();
  const BlockActivations& in = kept();
  const auto weigh = [&](BlockParam weight, BlockParam bias, const std::vector<float>& x, const float* from) {
    linear_backward_weights(products_, rows, linear(parameters, weight, bias), {x.data(), layout_[weight].cols},
                            {from, layout_[weight].rows}, linear_gradients(gradients, weight, bias));
  };
  weigh(BlockParam::o_weight, BlockParam::o_weight, in.o, dy);
  weigh(BlockParam::q_weight, BlockParam::q_bias, in.a, dq_.data());
  weigh(BlockParam::k_weight, BlockParam::k_bias, in.a, dk_.data());
  weigh(BlockParam::v_weight, BlockParam::v_bias, in.a, dv_.data());
}

void TransformerBlock::feed(const float* parameters, const float* x1, float* z) {
  const float* h = feed_hidden(parameters, x1);
  linear_forward(products_, shape_.rows(), linear(parameters, BlockParam::down_weight, BlockParam::down_weight),
                 {h, shape_.mlp}, {z, shape_.hidden});
}

const float* TransformerBlock::feed_hidden(const float* parameters, const float* x1) {
  const std::int64_t rows = shape_.rows(), hidden = shape_.hidden, mlp = shape_.mlp;
  BlockActivations& in = kept();
  in.resize(shape_);
  in.x1 = x1;
  norm_forward(products_.pool(), rows, norm(parameters, BlockParam::norm2_weight, BlockParam::norm2_bias), {x1, hidden},
               {in.b.data(), hidden}, &in.rows2);
  const RowsIn b{in.b.data(), hidden};
  linear_forward(products_, rows, linear(parameters, BlockParam::up_weight, BlockParam::up_bias), b,
                 {in.up.data(), mlp});
  if (shape_.design.gated) {
    linear_forward(products_, rows, linear(parameters, BlockParam::gate_weight, BlockParam::gate_bias), b,
                   {in.gate.data(), mlp});
    silu_gate_forward(products_.pool(), rows * mlp, in.gate.data(), in.up.data(), in.h.data());
  } else {
    relu_forward(products_.pool(), rows * mlp, in.up.data(), in.h.data());
  }
  return in.h.data();
}

void TransformerBlock::feed_backward(const float* parameters, const float* dz, float* dx1, float* gradients,
                                     BackwardPart part) {
  const std::int64_t rows = shape_.rows(), hidden = shape_.hidden, mlp = shape_.mlp;
  BlockActivations& in = kept();
  if (part != BackwardPart::weights) {
    products_.times({rows, mlp, hidden}, {dz, hidden}, {layout_.at(parameters, BlockParam::down_weight), mlp},
                    {dh_.data(), mlp});
    const RowsOut db{da_.data(), hidden};
    const float* dup = dh_.data();
    if (shape_.design.gated) {  // gate and up become their own gradients
      silu_gate_backward(products_.pool(), rows * mlp, in.gate.data(), in.up.data(), dh_.data(), in.gate.data(),
                         in.up.data());
      products_.times({rows, hidden, mlp}, {in.gate.data(), mlp},
                      {layout_.at(parameters, BlockParam::gate_weight), hidden}, db);
      dup = in.up.data();
    } else {
      relu_backward(products_.pool(), rows * mlp, in.h.data(), dh_.data(), dh_.data());
    }
    products_.times({rows, hidden, mlp}, {dup, mlp}, {layout_.at(parameters, BlockParam::up_weight), hidden}, db,
                    shape_.design.gated ? Into::add : Into::store);
    norm_backward(products_.pool(), rows, norm(parameters, BlockParam::norm2_weight, BlockParam::norm2_bias),
                  {in.x1, hidden}, in.rows2, {da_.data(), hidden}, {dx1, hidden}, Into::store,
                  {gradients + layout_[BlockParam::norm2_weight].begin, layout_.at(gradients, BlockParam::norm2_bias)});
  }
  if (part != BackwardPart::input) feed_weights(parameters, dz, gradients);
}

void TransformerBlock::feed_weights(const float* parameters, const float* dz, float* gradients) {
  const std::int64_t rows = shape_.rows(), hidden = shape_.hidden, mlp = shape_.mlp;
  const BlockActivations& in = kept();
  const RowsIn b{in.b.data(), hidden};
  linear_backward_weights(products_, rows, linear(parameters, BlockParam::down_weight, BlockParam::down_weight),
                          {in.h.data(), mlp}, {dz, hidden},
                          linear_gradients(gradients, BlockParam::down_weight, BlockParam::down_weight));
  if (shape_.design.gated)
    linear_backward_weights(products_, rows, linear(parameters, BlockParam::gate_weight, BlockParam::gate_bias), b,
                            {in.gate.data(), mlp},
                            linear_gradients(gradients, BlockParam::gate_weight, BlockParam::gate_bias));
  linear_backward_weights(products_, rows, linear(parameters, BlockParam::up_weight, BlockParam::up_bias), b,
                          {shape_.design.gated ? in.up.data() : dh_.data(), mlp},
                          linear_gradients(gradients, BlockParam::up_weight, BlockParam::up_bias));
}

}  // namespace weft
