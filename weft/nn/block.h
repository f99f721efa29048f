// One rank's part of a transformer block, forward and backward: its query heads, the key/value heads they read, and its
// columns of the feed-forward layer. The two halves are apart, since what lies between them is the synchronisation:
//   attend  y = o . Wo^T      with o = attention(norm1(x)); without the output bias
//   feed    z = h . Wd^T      with h = act(norm2(x1));      without the output bias
// Summing y or z over the ranks, adding biases and residuals is the caller's. All parameters lie in one flat array, so
// that an optimiser, a sum over ranks and a clip see one array; first those that every rank holds a copy of.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/nn/attention.h"
#include "weft/nn/design.h"
#include "weft/nn/linear.h"
#include "weft/nn/norm.h"
#include "weft/nn/rotary.h"

namespace weft {

enum class BlockParam {
  norm1_weight,  // from here to down_bias every rank holds the same
  norm1_bias,
  norm2_weight,
  norm2_bias,
  o_bias,
  down_bias,
  k_weight,  // (kv_heads * head_dim, hidden); ranks may share heads
  k_bias,
  v_weight,
  v_bias,
  q_weight,  // (heads * head_dim, hidden)
  q_bias,
  o_weight,     // (hidden, heads * head_dim)
  gate_weight,  // (mlp, hidden); none where the layer is not gated
  gate_bias,
  up_weight,
  up_bias,
  down_weight,  // (hidden, mlp)
};
constexpr int kBlockParams = static_cast<int>(BlockParam::down_weight) + 1;

struct BlockShape {
  std::int64_t hidden = 0, mlp = 0;  // mlp: this rank's columns of the feed-forward layer
  AttentionLayer attention;          // this rank's heads
  float eps = 1e-5f;
  Design design = {};  // one that is trainable (design.h)

  std::int64_t rows() const { return attention.sequence * attention.sequences; }
  std::int64_t q_cols() const { return attention.heads() * attention.head_dim; }
  std::int64_t kv_cols() const { return attention.kv_heads * attention.head_dim; }
};

// Where each parameter lies in the flat array.
class BlockLayout {
 public:
  explicit BlockLayout(const BlockShape& shape);

  struct Place {
    std::int64_t begin = 0, rows = 0, cols = 0;  // vectors have one column; none: no rows
    std::int64_t size() const { return rows * cols; }
  };
  const Place& operator[](BlockParam param) const { return places_[static_cast<std::size_t>(param)]; }
  std::int64_t size() const { return size_; }
  std::int64_t replicated() const { return (*this)[BlockParam::k_weight].begin; }  // parameters that every rank holds

  template <typename T>
  T* at(T* base, BlockParam param) const {  // null where there is no such parameter
    return (*this)[param].size() == 0 ? nullptr : base + (*this)[param].begin;
  }

 private:
  std::array<Place, kBlockParams> places_;
  std::int64_t size_ = 0;
};

// What a forward pass leaves for its backward pass.
struct BlockActivations {
  NormRows rows1, rows2;
  const float *x = nullptr, *x1 = nullptr;  // the caller's
  std::vector<float> a, q, k, v, o;         // attend: norm1(x) and what follows
  std::vector<float> b, gate, up, h;        // feed: norm2(x1) and what follows; the backward pass writes into gate, up
  std::vector<float> weights;               // of attention

  void resize(const BlockShape& shape);
};

enum class BackwardPart {
  whole,
  input,   // the gradients of inputs and of norms
  weights  // the rest, after `input` with the same dz or dy and before the block's next backward pass
};

class TransformerBlock {
 public:
  // `rotary` may be null (learned positions); it and the pool outlive the block. bad_input for a design without a
  // backward pass.
  TransformerBlock(const BlockShape& shape, const RotaryTable* rotary, ThreadPool* pool);

  const BlockShape& shape() const { return shape_; }
  const BlockLayout& layout() const { return layout_; }

  // Where forward passes leave their activations from now on, and backward passes find them; until the first call, in
  // the block. Several micro-batches may so wait for their backward pass. It must outlive its use.
  void keep_in(BlockActivations* kept);

  // y (rows, hidden) from x (rows, hidden); x1 likewise. The inputs must stay until the backward passes are done.
  void attend(const float* parameters, const float* x, float* y);
  void feed(const float* parameters, const float* x1, float* z);
  // feed() but for its last product, for those who make that one elsewhere, tile by tile: h (rows, mlp), kept until the
  // backward pass; z is h . down_weight(parameters)^T.
  const float* feed_hidden(const float* parameters, const float* x1);
  const float* down_weight(const float* parameters) const { return layout_.at(parameters, BlockParam::down_weight); }

  // Gradients (layout().size()) are added to. dx1 is stored.
  void feed_backward(const float* parameters, const float* dz, float* dx1, float* gradients,
                     BackwardPart part = BackwardPart::whole);
  // dx, where it is not null, is stored.
  void attend_backward(const float* parameters, const float* dy, float* dx, float* gradients,
                       BackwardPart part = BackwardPart::whole);

  const CausalAttention& attention() const { return attention_; }

 private:
  LinearLayer linear(const float* parameters, BlockParam weight, BlockParam bias) const;
  LinearGradients linear_gradients(float* gradients, BlockParam weight, BlockParam bias) const;
  Norm norm(const float* parameters, BlockParam weight, BlockParam bias) const;
  void rotate_heads(Turn turn, float* q, float* k);
  BlockActivations& kept() { return *kept_; }
  void feed_weights(const float* parameters, const float* dz, float* gradients);
  void attend_weights(const float* parameters, const float* dy, float* gradients);

  BlockShape shape_;
  BlockLayout layout_;
  const RotaryTable* rotary_;
  Products products_;
  CausalAttention attention_;
  std::unique_ptr<BlockActivations> own_;
  BlockActivations* kept_;
  std::vector<float> da_, dq_, dk_, dv_, do_, dh_;
};

}  // namespace weft
