// What a decoder-only transformer computes, as one description that every family fills in and that engine, trainer and
// loaders read: nobody asks for a family's name. Sizes are not here (ModelConfig and BlockShape have them), nor how
// files name their tensors. With x the rows that enter a block, `half` its attention or its feed-forward layer:
//   before  x + half(norm(x))         Llama and most others
//   after   x + norm(half(x))         OLMo 2
//   both    x + norm(half(norm(x)))   Gemma
// A parallel block (GPT-NeoX) has x + attention(norm(x)) + feed(norm'(x)).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/choices.h"
#include "weft/base/index.h"
#include "weft/nn/norm.h"
#include "weft/nn/rotary_design.h"

namespace weft {

enum class NormPlace { before, after, both };
enum class QkNorm {
  none,
  head,   // root-mean-square norm over the columns of each head
  whole,  // over all heads together
};

// What may differ from block to block.
struct BlockDesign {
  std::int64_t window = 0;  // a query sees this many positions, its own included; 0: all
  int rotary = 0;           // which of Design::rotaries turns its heads; -1: none

  friend bool operator==(const BlockDesign&, const BlockDesign&) = default;
};

// A feed-forward layer of experts: described, and refused by what runs models.
struct ExpertDesign {
  std::int64_t experts = 0;    // 0: the layer is one
  std::int64_t per_token = 0;  // of them, that a token visits

  friend bool operator==(const ExpertDesign&, const ExpertDesign&) = default;
};

struct Design {
  NormKind norm = NormKind::rms;
  NormPlace norm_place = NormPlace::before;
  bool norm_adds_one = false;  // files keep a norm's weights less one
  QkNorm qk_norm = QkNorm::none;
  bool parallel = false;
  bool gated = true;  // activation(gate) * up; else activation(up)
  Activation activation = Activation::silu;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;  // output: of the attention's projection
  double embedding_scale = 1;                                    // rows of the embedding are multiplied with it
  double residual_scale = 1;                                     // what a half adds is
  double attention_scale = 0;                                    // of scores; 0: 1 / sqrt(head_dim)
  double logit_scale = 1;                                        // logits are multiplied with it
  double attention_cap = 0;                                      // scores become cap * tanh(score / cap); 0: they stay
  double logit_cap = 0;                                          // likewise
  int learned_positions = -1;  // rows in front of position 0 in a table of learned positions; -1: there is none
  std::vector<RotaryDesign> rotaries;
  std::vector<BlockDesign> blocks;  // (blocks); empty: all as default
  ExpertDesign experts;

  BlockDesign block(std::int64_t index) const { return blocks.empty() ? BlockDesign{} : blocks[at(index)]; }
  const RotaryDesign* rotary_of(std::int64_t index) const {  // null: heads of this block do not turn
    const int rotary = block(index).rotary;
    return rotary < 0 || rotary >= int_size(rotaries) ? nullptr : &rotaries[num(rotary)];
  }
  bool norms_before() const { return norm_place != NormPlace::after; }
  bool norms_after() const { return norm_place != NormPlace::before; }

  friend bool operator==(const Design&, const Design&) = default;
};

// Why the synchronisation behind the attention cannot be left out of its blocks; empty: it can.
std::string why_not_droppable(const Design& design);
// Why TransformerBlock, which has backward passes, does not compute it; empty: it does.
std::string why_not_trainable(const Design& design);

}  // namespace weft
