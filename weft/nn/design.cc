#include "weft/nn/design.h"

#include <fmt/core.h>

namespace weft {

std::string why_not_droppable(const Design& d) {
  if (d.parallel) return "its blocks are parallel and have one synchronisation each";
  if (d.norms_after()) return "the sum over ranks goes through a norm, which no part of it can";
  return "";
}

std::string why_not_trainable(const Design& d) {
  if (d.experts.experts > 0) return "its feed-forward layers are experts";
  if (d.parallel) return "its blocks are parallel";
  if (d.norms_after()) return "it has norms behind its products";
  if (d.norm_adds_one) return "its norms add one to their weights";
  if (d.qk_norm != QkNorm::none) return "queries and keys are normed";
  if (d.activation != (d.gated ? Activation::silu : Activation::relu))
    return fmt::format("its activation is {}; there are silu (gated) and relu", to_string(d.activation));
  if (d.embedding_scale != 1 || d.residual_scale != 1 || d.attention_scale != 0 || d.logit_scale != 1)
    return "it multiplies embeddings, residuals, scores or logits";
  if (d.attention_cap != 0 || d.logit_cap != 0) return "it caps scores or logits";
  for (const BlockDesign& block : d.blocks)
    if (block != d.blocks.front()) return "its blocks differ in windows or positions";
  for (const RotaryDesign& rotary : d.rotaries)
    if (rotary.magnitude != 1) return "its rotary positions change the size of queries and keys";
  return "";
}

}  // namespace weft
