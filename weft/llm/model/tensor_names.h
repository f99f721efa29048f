// What model files call the tensors of a model, and where in them a part lies: one place that knows, for every family.
// Some files keep several parts in one tensor, one behind another (Phi-3: q, k, v; gate, up) or head by head
// (GPT-NeoX), and GPT-2's are (in, out) instead of (out, in).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "weft/llm/model/config.h"

namespace weft {

// In the order of a block. A norm behind a half of the block is post_norm; q_norm and k_norm are those of heads.
enum class BlockPart { norm1, q, k, v, q_norm, k_norm, o, post_norm1, norm2, gate, up, down, post_norm2 };
inline constexpr int kBlockParts = static_cast<int>(BlockPart::post_norm2) + 1;

struct TensorNames {
  const char* layers;     // "layers"
  const char* embedding;  // (vocab, hidden)
  const char* positions;  // learned ones; null: none
  const char* final_norm;
  std::array<const char*, kBlockParts> parts;  // null: there is no such part; two that are one tensor have one name
  bool by_head = false;                        // q, k and v of one tensor take turns, head after head
  bool transposed = false;                     // weights are (in, out)
};
extern const TensorNames kLlamaNames, kGemmaNames, kPhi3Names, kGpt2Names, kNeoxNames, kOptNames;
extern const TensorNames kGgufNames, kGgufFusedNames;  // of all families; the second: q, k, v and gate, up in one

// Where a part of a block lies: its output `i` is the stored output first + i / group * stride + i % group.
struct PartPlace {
  std::string name;                 // without ".weight"
  std::vector<std::int64_t> shape;  // of the stored weight
  bool transposed = false;
  std::int64_t first = 0, group = 0, stride = 0;

  std::int64_t stored(std::int64_t output) const { return first + output / group * stride + output % group; }
  bool contiguous() const { return stride == group; }
  bool alone(std::int64_t outputs) const { return first == 0 && contiguous() && shape[transposed ? 1 : 0] == outputs; }
};
PartPlace place_of(const ModelConfig& config, std::int64_t block, BlockPart part);

// The weight of a part of a block, as "model.layers.3.mlp.up_proj.weight". A part that the model has not: bad_input.
std::string weight_name(const ModelConfig& config, std::int64_t block, BlockPart part);
std::string bias_name(const ModelConfig& config, std::int64_t block, BlockPart part);
bool has_bias(const ModelConfig& config, BlockPart part);
// (out, in) of a part's weight, wherever it is stored; norms have one dimension.
std::vector<std::int64_t> shape_of(const ModelConfig& config, BlockPart part);
std::vector<BlockPart> block_parts(const ModelConfig& config);

std::string embedding_name(const ModelConfig& config);        // (vocab, hidden)
std::string positions_name(const ModelConfig& config);        // (positions_rows(), hidden); empty: there are none
std::string final_norm_name(const ModelConfig& config);       // its weight
std::string final_norm_bias_name(const ModelConfig& config);  // empty: it has none
std::string head_name(const ModelConfig& config);             // the embedding's where the head is tied

// Every tensor of the model with its shape, in the order of the model.
struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
};
std::vector<NamedShape> all_tensors(const ModelConfig& config);

}  // namespace weft
