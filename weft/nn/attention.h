// Causal softmax attention with its backward pass, for training. The weights of every query are kept, (sequence,
// sequence) per head, so that the backward pass computes neither scores nor exp again. Queries of several heads may
// share the keys and values of one; a window limits how far back a query sees. Rows are taken in blocks, and keys after
// a block's last query are never multiplied.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "weft/nn/product.h"

namespace weft {

struct AttentionLayer {
  std::int64_t sequence = 0;        // rows of one sequence
  std::int64_t sequences = 1;       // stacked by rows; they do not see each other
  std::int64_t head_dim = 0;        // columns of a head in q, k, v and the output
  std::vector<std::int32_t> kv_of;  // (query heads): the head of k and v it reads; ascending
  std::int64_t kv_heads = 0;        // of k and v
  std::int64_t window = 0;          // query i sees keys i - window + 1 to i; 0: all before it
  std::int64_t heads() const { return std::ssize(kv_of); }
};

// Rows are (sequences * sequence, heads * head_dim) and (.., kv_heads * head_dim), contiguous.
struct AttentionInputs {
  const float *q, *k, *v;
};
struct AttentionGradients {
  float *q, *k, *v;  // stored
};

class CausalAttention {
 public:
  explicit CausalAttention(AttentionLayer layer);  // bad_input where kv_of names a head there is not

  // Where forward() leaves the weights and backward() finds them, sized here; until the first call, in here. So several
  // forward passes may wait for their backward pass. It must outlive its use.
  void keep_in(std::vector<float>* weights);

  void forward(ThreadPool& pool, const AttentionInputs& in, float* out);
  // After forward() with the same inputs; `out` is what it made.
  void backward(ThreadPool& pool, const AttentionInputs& in, const float* out, const float* dout,
                const AttentionGradients& gradients);

  // (sequence, sequence) weights of one head after forward(): row i has what query i gave to keys 0 to i; what lies
  // beyond i in its block is zero, and beyond that it is not written.
  const float* weights(std::int64_t sequence, std::int64_t head) const;

 private:
  struct Scratch;
  struct Block {
    std::int64_t row, rows, key, keys;  // queries [row, row + rows) and the keys any of them sees
  };
  Block block_at(std::int64_t row) const;
  std::int64_t num_weights() const { return layer_.sequences * layer_.heads() * layer_.sequence * layer_.sequence; }
  float* weights_at(std::int64_t sequence, std::int64_t head);
  void forward_head(const AttentionInputs& in, float* out, std::int64_t sequence, std::int64_t head, Scratch& scratch);
  void soften(const Block& block, float* rows) const;
  void backward_head(const AttentionInputs& in, const float* out, const float* dout,
                     const AttentionGradients& gradients, std::int64_t sequence, std::int64_t head, Scratch& scratch);
  void blame(const Block& block, const float* weights, RowsIn out, RowsIn dout, float* dscores) const;

  AttentionLayer layer_;
  std::vector<std::vector<std::int64_t>> readers_;  // (kv heads): the query heads that read it
  std::vector<float> own_;                          // (sequences, heads, sequence, sequence)
  std::vector<float>* kept_ = nullptr;              // the same, elsewhere; null: own_
};

}  // namespace weft
