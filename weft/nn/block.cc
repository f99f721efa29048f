#include "weft/nn/block.h"

#include <algorithm>

#include "weft/nn/gate.h"

namespace weft {
namespace {

std::size_t count(std::int64_t rows, std::int64_t cols) { return static_cast<std::size_t>(rows * cols); }

}  // namespace

BlockLayout::BlockLayout(const BlockShape& s) {
  const std::int64_t norm_bias = s.norm == NormKind::layer ? s.hidden : 0;
  const std::int64_t q_bias = s.attention_bias ? s.q_cols() : 0, kv_bias = s.attention_bias ? s.kv_cols() : 0;
  const std::int64_t o_bias = s.attention_bias ? s.hidden : 0, down_bias = s.mlp_bias ? s.hidden : 0;
  const std::int64_t up_bias = s.mlp_bias ? s.mlp : 0, gate = s.gated ? s.mlp : 0;
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
             Place{0, s.gated ? up_bias : 0, 1},
             Place{0, s.mlp, s.hidden},
             Place{0, up_bias, 1},
             Place{0, s.hidden, s.mlp}};
  for (Place& place : places_) {
    place.begin = size_;
    size_ += place.size();
  }
}

TransformerBlock::TransformerBlock(const BlockShape& shape, const RotaryTable* rotary, ThreadPool* pool)
    : shape_(shape), layout_(shape), rotary_(rotary), products_(pool), attention_(shape.attention) {
  const std::int64_t rows = shape.rows();
  for (auto* wide : {&a_, &b_, &da_}) wide->resize(count(rows, shape.hidden));
  for (auto* queries : {&q_, &o_, &dq_, &do_}) queries->resize(count(rows, shape.q_cols()));
  for (auto* keys : {&k_, &v_, &dk_, &dv_}) keys->resize(count(rows, shape.kv_cols()));
  for (auto* middle : {&up_, &h_, &dh_}) middle->resize(count(rows, shape.mlp));
  if (shape.gated) gate_.resize(count(rows, shape.mlp));
}

LinearLayer TransformerBlock::linear(const float* parameters, BlockParam weight, BlockParam bias) const {
  return {layout_[weight].cols, layout_[weight].rows, parameters + layout_[weight].begin,
          weight == bias ? nullptr : layout_.at(parameters, bias)};
}

LinearGradients TransformerBlock::linear_gradients(float* gradients, BlockParam weight, BlockParam bias) const {
  return {gradients + layout_[weight].begin, weight == bias ? nullptr : layout_.at(gradients, bias)};
}

Norm TransformerBlock::norm(const float* parameters, BlockParam weight, BlockParam bias) const {
  return {shape_.norm, shape_.hidden, shape_.eps, layout_.at(parameters, weight), layout_.at(parameters, bias)};
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
  x_ = x;
  norm_forward(products_.pool(), rows, norm(parameters, BlockParam::norm1_weight, BlockParam::norm1_bias), {x, hidden},
               {a_.data(), hidden}, &rows1_);
  const RowsIn a{a_.data(), hidden};
  linear_forward(products_, rows, linear(parameters, BlockParam::q_weight, BlockParam::q_bias), a, {q_.data(), q_cols});
  linear_forward(products_, rows, linear(parameters, BlockParam::k_weight, BlockParam::k_bias), a,
                 {k_.data(), kv_cols});
  linear_forward(products_, rows, linear(parameters, BlockParam::v_weight, BlockParam::v_bias), a,
                 {v_.data(), kv_cols});
  rotate_heads(Turn::forward, q_.data(), k_.data());
  attention_.forward(products_.pool(), {q_.data(), k_.data(), v_.data()}, o_.data());
  linear_forward(products_, rows, linear(parameters, BlockParam::o_weight, BlockParam::o_weight), {o_.data(), q_cols},
                 {y, hidden});
}

void TransformerBlock::attend_backward(const float* parameters, const float* dy, float* dx, float* gradients) {
  const std::int64_t rows = shape_.rows(), hidden = shape_.hidden, q_cols = shape_.q_cols(), kv_cols = shape_.kv_cols();
  linear_backward(products_, rows, linear(parameters, BlockParam::o_weight, BlockParam::o_weight), {o_.data(), q_cols},
                  {dy, hidden}, {do_.data(), q_cols}, Into::store,
                  linear_gradients(gradients, BlockParam::o_weight, BlockParam::o_weight));
  attention_.backward(products_.pool(), {q_.data(), k_.data(), v_.data()}, o_.data(), do_.data(),
                      {dq_.data(), dk_.data(), dv_.data()});
  rotate_heads(Turn::backward, dq_.data(), dk_.data());
  const RowsIn a{a_.data(), hidden};
  const RowsOut da{da_.data(), hidden};
  linear_backward(products_, rows, linear(parameters, BlockParam::q_weight, BlockParam::q_bias), a,
                  {dq_.data(), q_cols}, da, Into::store,
                  linear_gradients(gradients, BlockParam::q_weight, BlockParam::q_bias));
  linear_backward(products_, rows, linear(parameters, BlockParam::k_weight, BlockParam::k_bias), a,
                  {dk_.data(), kv_cols}, da, Into::add,
                  linear_gradients(gradients, BlockParam::k_weight, BlockParam::k_bias));
  linear_backward(products_, rows, linear(parameters, BlockParam::v_weight, BlockParam::v_bias), a,
                  {dv_.data(), kv_cols}, da, Into::add,
                  linear_gradients(gradients, BlockParam::v_weight, BlockParam::v_bias));
  norm_backward(products_.pool(), rows, norm(parameters, BlockParam::norm1_weight, BlockParam::norm1_bias),
                {x_, hidden}, rows1_, {da_.data(), hidden}, {dx, hidden}, Into::store,
                {gradients + layout_[BlockParam::norm1_weight].begin, layout_.at(gradients, BlockParam::norm1_bias)});
}

void TransformerBlock::feed(const float* parameters, const float* x1, float* z) {
  const std::int64_t rows = shape_.rows(), hidden = shape_.hidden, mlp = shape_.mlp;
  x1_ = x1;
  norm_forward(products_.pool(), rows, norm(parameters, BlockParam::norm2_weight, BlockParam::norm2_bias), {x1, hidden},
               {b_.data(), hidden}, &rows2_);
  const RowsIn b{b_.data(), hidden};
  linear_forward(products_, rows, linear(parameters, BlockParam::up_weight, BlockParam::up_bias), b, {up_.data(), mlp});
  if (shape_.gated) {
    linear_forward(products_, rows, linear(parameters, BlockParam::gate_weight, BlockParam::gate_bias), b,
                   {gate_.data(), mlp});
    silu_gate_forward(products_.pool(), rows * mlp, gate_.data(), up_.data(), h_.data());
  } else {
    relu_forward(products_.pool(), rows * mlp, up_.data(), h_.data());
  }
  linear_forward(products_, rows, linear(parameters, BlockParam::down_weight, BlockParam::down_weight),
                 {h_.data(), mlp}, {z, hidden});
}

void TransformerBlock::feed_backward(const float* parameters, const float* dz, float* dx1, float* gradients) {
  const std::int64_t rows = shape_.rows(), hidden = shape_.hidden, mlp = shape_.mlp;
  linear_backward(products_, rows, linear(parameters, BlockParam::down_weight, BlockParam::down_weight),
                  {h_.data(), mlp}, {dz, hidden}, {dh_.data(), mlp}, Into::store,
                  linear_gradients(gradients, BlockParam::down_weight, BlockParam::down_weight));
  const RowsIn b{b_.data(), hidden};
  const RowsOut db{da_.data(), hidden};
  const float* dup = dh_.data();
  if (shape_.gated) {  // gate_ and up_ become their own gradients
    silu_gate_backward(products_.pool(), rows * mlp, gate_.data(), up_.data(), dh_.data(), gate_.data(), up_.data());
    linear_backward(products_, rows, linear(parameters, BlockParam::gate_weight, BlockParam::gate_bias), b,
                    {gate_.data(), mlp}, db, Into::store,
                    linear_gradients(gradients, BlockParam::gate_weight, BlockParam::gate_bias));
    dup = up_.data();
  } else {
    relu_backward(products_.pool(), rows * mlp, h_.data(), dh_.data(), dh_.data());
  }
  linear_backward(products_, rows, linear(parameters, BlockParam::up_weight, BlockParam::up_bias), b, {dup, mlp}, db,
                  shape_.gated ? Into::add : Into::store,
                  linear_gradients(gradients, BlockParam::up_weight, BlockParam::up_bias));
  norm_backward(products_.pool(), rows, norm(parameters, BlockParam::norm2_weight, BlockParam::norm2_bias),
                {x1_, hidden}, rows2_, {da_.data(), hidden}, {dx1, hidden}, Into::store,
                {gradients + layout_[BlockParam::norm2_weight].begin, layout_.at(gradients, BlockParam::norm2_bias)});
}

}  // namespace weft
