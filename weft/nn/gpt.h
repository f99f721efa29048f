// A decoder-only transformer, described: its sizes, and every tensor with the name that a Llama folder has for it, its
// shape and how ranks share it. RMSNorm, rotary positions, a gated feed-forward layer, no biases, a head of its own.
//
// `u_shaped` adds long skip connections: what enters block i of the first half is added to what enters block
// layers - 1 - i of the second. No other program knows such a model, so it has checkpoints and no Llama folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/block.h"

namespace weft {

struct GptShape {
  std::int64_t vocab = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, mlp = 0;
  std::int64_t sequence = 0;  // the longest
  float eps = 1e-5f;
  double rope_theta = 10000;
  bool u_shaped = false;

  std::int64_t head_dim() const { return hidden / heads; }
  // The block whose input is added to that of block `layer`, or -1.
  std::int64_t skip_into(std::int64_t layer) const {
    return u_shaped && layer >= (layers + 1) / 2 ? layers - 1 - layer : -1;
  }
};

// Throws bad_input where the sizes fit no model: the message names the value and what would do.
void check_gpt(const GptShape& shape);

// A block with the heads and columns of one of `ranks` tensor-parallel ranks, for `sequences` sequences at a time.
BlockShape block_of(const GptShape& shape, std::int64_t sequences, int ranks);
RotaryTable rotary_of(const GptShape& shape);

struct GptTensor {
  std::string name;                 // "model.layers.3.mlp.up_proj.weight"
  std::vector<std::int64_t> shape;  // of the whole
  int split = -1;                   // the dimension that tensor-parallel ranks share out; -1: each has all of it
};

GptTensor gpt_embedding(const GptShape& shape);
GptTensor gpt_final_norm(const GptShape& shape);
GptTensor gpt_head(const GptShape& shape);
GptTensor gpt_block_tensor(const GptShape& shape, std::int64_t layer, BlockParam param);  // one that blocks have
std::vector<BlockParam> gpt_block_params();
std::int64_t num_parameters(const GptShape& shape);

// First values: they depend on seed, name and place in the whole tensor, and not on who holds it. Norms are one,
// weights lie evenly in +-0.035 (a deviation of 0.02), those that end a block divided by sqrt(2 layers).
class FirstValues {
 public:
  FirstValues(const GptShape& shape, const GptTensor& tensor, std::uint64_t seed);
  float at(std::int64_t index) const;

 private:
  std::uint64_t key_;
  double width_;  // 0: all are one
};

// The text of config.json, as transformers reads it. `dtype`: "float32" or "bfloat16"; eos below 0: none.
std::string llama_config(const GptShape& shape, const std::string& dtype, int bos, int eos);

}  // namespace weft
