// What model files call the tensors of a model: one place that knows, for every family.
#pragma once

#include <string>
#include <vector>

#include "weft/llm/model/config.h"

namespace weft {

enum class BlockPart { norm1, q, k, v, o, norm2, gate, up, down };

// The weight of a part of a block, as "model.layers.3.mlp.up_proj.weight". OPT has no gate: bad_input.
std::string weight_name(const ModelConfig& config, std::int64_t block, BlockPart part);
std::string bias_name(const ModelConfig& config, std::int64_t block, BlockPart part);
bool has_bias(const ModelConfig& config, BlockPart part);
// (out, in) of a part's weight; norms have one dimension.
std::vector<std::int64_t> shape_of(const ModelConfig& config, BlockPart part);
std::vector<BlockPart> block_parts(const ModelConfig& config);

std::string embedding_name(const ModelConfig& config);   // (vocab, hidden)
std::string positions_name(const ModelConfig& config);   // opt: (max_positions + 2, hidden); else empty
std::string final_norm_name(const ModelConfig& config);  // its weight; opt: a bias ends in ".bias" instead of ".weight"
std::string head_name(const ModelConfig& config);        // the embedding's where the head is tied

// Every tensor of the model with its shape, in the order of the model.
struct NamedShape {
  std::string name;
  std::vector<std::int64_t> shape;
};
std::vector<NamedShape> all_tensors(const ModelConfig& config);

}  // namespace weft
