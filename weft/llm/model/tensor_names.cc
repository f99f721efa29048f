#include "weft/llm/model/tensor_names.h"

#include "weft/base/error.h"

namespace weft {
namespace {

bool is_opt(const ModelConfig& config) { return config.family == ModelFamily::opt; }

const char* part_name(const ModelConfig& config, BlockPart part) {
  const bool opt = is_opt(config);
  switch (part) {
    case BlockPart::norm1:
      return opt ? "self_attn_layer_norm" : "input_layernorm";
    case BlockPart::q:
      return "self_attn.q_proj";
    case BlockPart::k:
      return "self_attn.k_proj";
    case BlockPart::v:
      return "self_attn.v_proj";
    case BlockPart::o:
      return opt ? "self_attn.out_proj" : "self_attn.o_proj";
    case BlockPart::norm2:
      return opt ? "final_layer_norm" : "post_attention_layernorm";
    case BlockPart::gate:
      if (opt) bad_input("{}: a model of type opt has no gate", config.file);
      return "mlp.gate_proj";
    case BlockPart::up:
      return opt ? "fc1" : "mlp.up_proj";
    case BlockPart::down:
      return opt ? "fc2" : "mlp.down_proj";
  }
  return "";
}

std::string root(const ModelConfig& config) { return is_opt(config) ? "model.decoder." : "model."; }

std::string part_path(const ModelConfig& config, std::int64_t block, BlockPart part) {
  return fmt::format("{}layers.{}.{}", root(config), block, part_name(config, part));
}

bool is_norm(BlockPart part) { return part == BlockPart::norm1 || part == BlockPart::norm2; }

}  // namespace

std::string weight_name(const ModelConfig& config, std::int64_t block, BlockPart part) {
  return part_path(config, block, part) + ".weight";
}

std::string bias_name(const ModelConfig& config, std::int64_t block, BlockPart part) {
  return part_path(config, block, part) + ".bias";
}

bool has_bias(const ModelConfig& config, BlockPart part) {
  if (is_norm(part)) return is_opt(config);
  const bool mlp = part == BlockPart::gate || part == BlockPart::up || part == BlockPart::down;
  return mlp ? config.mlp_bias : config.attention_bias;
}

std::vector<std::int64_t> shape_of(const ModelConfig& c, BlockPart part) {
  switch (part) {
    case BlockPart::norm1:
    case BlockPart::norm2:
      return {c.hidden};
    case BlockPart::q:
      return {c.heads * c.head_dim, c.hidden};
    case BlockPart::k:
    case BlockPart::v:
      return {c.kv_heads * c.head_dim, c.hidden};
    case BlockPart::o:
      return {c.hidden, c.heads * c.head_dim};
    case BlockPart::gate:
    case BlockPart::up:
      return {c.intermediate, c.hidden};
    case BlockPart::down:
      return {c.hidden, c.intermediate};
  }
  return {};
}

std::vector<BlockPart> block_parts(const ModelConfig& config) {
  std::vector<BlockPart> parts{BlockPart::norm1, BlockPart::q, BlockPart::k,
                               BlockPart::v,     BlockPart::o, BlockPart::norm2};
  if (config.gated()) parts.push_back(BlockPart::gate);
  parts.push_back(BlockPart::up);
  parts.push_back(BlockPart::down);
  return parts;
}

std::string embedding_name(const ModelConfig& config) { return root(config) + "embed_tokens.weight"; }

std::string positions_name(const ModelConfig& config) {
  return is_opt(config) ? root(config) + "embed_positions.weight" : std::string();
}

std::string final_norm_name(const ModelConfig& config) {
  return root(config) + (is_opt(config) ? "final_layer_norm.weight" : "norm.weight");
}

std::string head_name(const ModelConfig& config) {
  return config.tied_head ? embedding_name(config) : std::string("lm_head.weight");
}

std::vector<NamedShape> all_tensors(const ModelConfig& config) {
  std::vector<NamedShape> out{{embedding_name(config), {config.vocab, config.hidden}}};
  if (is_opt(config)) out.push_back({positions_name(config), {config.max_positions + 2, config.hidden}});
  for (std::int64_t block = 0; block < config.blocks; ++block)
    for (const BlockPart part : block_parts(config)) {
      const auto shape = shape_of(config, part);
      out.push_back({weight_name(config, block, part), shape});
      if (has_bias(config, part)) out.push_back({bias_name(config, block, part), {shape[0]}});
    }
  const std::string norm = final_norm_name(config);
  out.push_back({norm, {config.hidden}});
  if (is_opt(config)) out.push_back({norm.substr(0, norm.size() - 6) + "bias", {config.hidden}});
  if (!config.tied_head) out.push_back({head_name(config), {config.vocab, config.hidden}});
  return out;
}

}  // namespace weft
