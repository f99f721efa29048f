#include "weft/llm/model/tensor_names.h"

#include <algorithm>
#include <cstring>

#include "weft/base/error.h"

namespace weft {

const TensorNames kLlamaNames{"layers",
                              "embed_tokens",
                              nullptr,
                              "norm",
                              {"input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                               "self_attn.q_norm", "self_attn.k_norm", "self_attn.o_proj", nullptr,
                               "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", nullptr}};
const TensorNames kGemmaNames{
    "layers",
    "embed_tokens",
    nullptr,
    "norm",
    {"input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.q_norm",
     "self_attn.k_norm", "self_attn.o_proj", "post_attention_layernorm", "pre_feedforward_layernorm", "mlp.gate_proj",
     "mlp.up_proj", "mlp.down_proj", "post_feedforward_layernorm"}};
const TensorNames kPhi3Names{"layers",
                             "embed_tokens",
                             nullptr,
                             "norm",
                             {"input_layernorm", "self_attn.qkv_proj", "self_attn.qkv_proj", "self_attn.qkv_proj",
                              nullptr, nullptr, "self_attn.o_proj", nullptr, "post_attention_layernorm",
                              "mlp.gate_up_proj", "mlp.gate_up_proj", "mlp.down_proj", nullptr}};
const TensorNames kGpt2Names{.layers = "h",
                             .embedding = "wte",
                             .positions = "wpe",
                             .final_norm = "ln_f",
                             .parts = {"ln_1", "attn.c_attn", "attn.c_attn", "attn.c_attn", nullptr, nullptr,
                                       "attn.c_proj", nullptr, "ln_2", nullptr, "mlp.c_fc", "mlp.c_proj", nullptr},
                             .transposed = true};
const TensorNames kNeoxNames{
    .layers = "layers",
    .embedding = "embed_in",
    .positions = nullptr,
    .final_norm = "final_layer_norm",
    .parts = {"input_layernorm", "attention.query_key_value", "attention.query_key_value", "attention.query_key_value",
              nullptr, nullptr, "attention.dense", nullptr, "post_attention_layernorm", nullptr, "mlp.dense_h_to_4h",
              "mlp.dense_4h_to_h", nullptr},
    .by_head = true};
const TensorNames kOptNames{
    "layers",
    "embed_tokens",
    "embed_positions",
    "final_layer_norm",
    {"self_attn_layer_norm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", nullptr, nullptr,
     "self_attn.out_proj", nullptr, "final_layer_norm", nullptr, "fc1", "fc2", nullptr}};
const TensorNames kGgufNames{"blk",
                             "token_embd",
                             "position_embd",
                             "output_norm",
                             {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_q_norm", "attn_k_norm", "attn_output",
                              "post_attention_norm", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down", "post_ffw_norm"}};
const TensorNames kGgufFusedNames{
    "blk",
    "token_embd",
    "position_embd",
    "output_norm",
    {"attn_norm", "attn_qkv", "attn_qkv", "attn_qkv", "attn_q_norm", "attn_k_norm", "attn_output",
     "post_attention_norm", "ffn_norm", "ffn_up", "ffn_up", "ffn_down", "post_ffw_norm"}};

namespace {

bool is_norm(BlockPart part) {
  return part == BlockPart::norm1 || part == BlockPart::norm2 || part == BlockPart::post_norm1 ||
         part == BlockPart::post_norm2 || part == BlockPart::q_norm || part == BlockPart::k_norm;
}

bool is_there(const Design& d, BlockPart part) {
  switch (part) {
    case BlockPart::norm1:
    case BlockPart::norm2:
      return d.norms_before();
    case BlockPart::post_norm1:
    case BlockPart::post_norm2:
      return d.norms_after();
    case BlockPart::q_norm:
    case BlockPart::k_norm:
      return d.qk_norm != QkNorm::none;
    case BlockPart::gate:
      return d.gated;
    default:
      return true;
  }
}

const char* part_name(const ModelConfig& config, BlockPart part) {
  const char* name = config.names->parts[static_cast<std::size_t>(part)];
  if (name == nullptr || !is_there(config.design, part))
    bad_input("{}: a block of this model has no part {}", config.file, static_cast<int>(part));
  return name;
}

std::string part_path(const ModelConfig& config, std::int64_t block, BlockPart part) {
  return fmt::format("{}{}.{}.{}", config.root, config.names->layers, block, part_name(config, part));
}

bool same_tensor(const ModelConfig& config, BlockPart a, BlockPart b) {
  return std::strcmp(part_name(config, a), part_name(config, b)) == 0;
}

// Parts that may share a tensor, in the order in which it holds them.
std::vector<BlockPart> sharers(const ModelConfig& config, BlockPart part) {
  for (const auto& group :
       {std::vector{BlockPart::q, BlockPart::k, BlockPart::v}, std::vector{BlockPart::gate, BlockPart::up}})
    if (std::find(group.begin(), group.end(), part) != group.end() && is_there(config.design, group[0]) &&
        same_tensor(config, group[0], group[1]))
      return group;
  return {part};
}

}  // namespace

PartPlace place_of(const ModelConfig& config, std::int64_t block, BlockPart part) {
  PartPlace place{.name = part_path(config, block, part), .shape = shape_of(config, part)};
  place.group = place.stride = std::max<std::int64_t>(place.shape[0], 1);
  if (is_norm(part)) return place;
  std::int64_t outputs = 0;
  const std::vector<BlockPart> together = sharers(config, part);
  for (const BlockPart other : together) {
    if (other == part) place.first = outputs;
    outputs += shape_of(config, other)[0];
  }
  place.shape[0] = outputs;
  if (config.names->by_head && together.size() > 1) {
    place.group = config.head_dim;
    place.stride = std::ssize(together) * config.head_dim;
    place.first = (std::find(together.begin(), together.end(), part) - together.begin()) * config.head_dim;
  }
  place.transposed = config.names->transposed;
  if (place.transposed) std::swap(place.shape[0], place.shape[1]);
  return place;
}

std::string weight_name(const ModelConfig& config, std::int64_t block, BlockPart part) {
  return part_path(config, block, part) + ".weight";
}

std::string bias_name(const ModelConfig& config, std::int64_t block, BlockPart part) {
  return part_path(config, block, part) + ".bias";
}

bool has_bias(const ModelConfig& config, BlockPart part) {
  const Design& d = config.design;
  if (part == BlockPart::q_norm || part == BlockPart::k_norm) return false;
  if (is_norm(part)) return d.norm == NormKind::layer;
  if (part == BlockPart::o) return d.output_bias;
  const bool mlp = part == BlockPart::gate || part == BlockPart::up || part == BlockPart::down;
  return mlp ? d.mlp_bias : d.qkv_bias;
}

std::vector<std::int64_t> shape_of(const ModelConfig& c, BlockPart part) {
  const bool whole = c.design.qk_norm == QkNorm::whole;
  switch (part) {
    case BlockPart::norm1:
    case BlockPart::norm2:
    case BlockPart::post_norm1:
    case BlockPart::post_norm2:
      return {c.hidden};
    case BlockPart::q_norm:
      return {whole ? c.heads * c.head_dim : c.head_dim};
    case BlockPart::k_norm:
      return {whole ? c.kv_heads * c.head_dim : c.head_dim};
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
  std::vector<BlockPart> parts;
  for (int i = 0; i < kBlockParts; ++i)
    if (is_there(config.design, static_cast<BlockPart>(i))) parts.push_back(static_cast<BlockPart>(i));
  return parts;
}

std::string embedding_name(const ModelConfig& config) {
  return fmt::format("{}{}.weight", config.root, config.names->embedding);
}

std::string positions_name(const ModelConfig& config) {
  if (config.design.learned_positions < 0) return "";
  return fmt::format("{}{}.weight", config.root, config.names->positions);
}

std::string final_norm_name(const ModelConfig& config) {
  return fmt::format("{}{}.weight", config.root, config.names->final_norm);
}

std::string final_norm_bias_name(const ModelConfig& config) {
  if (config.design.norm != NormKind::layer) return "";
  return fmt::format("{}{}.bias", config.root, config.names->final_norm);
}

std::string head_name(const ModelConfig& config) { return config.tied_head ? embedding_name(config) : config.head; }

std::vector<NamedShape> all_tensors(const ModelConfig& config) {
  refuse_experts(config);
  std::vector<NamedShape> out{{embedding_name(config), {config.vocab, config.hidden}}};
  if (const std::string name = positions_name(config); !name.empty())
    out.push_back({name, {config.positions_rows(), config.hidden}});
  for (std::int64_t block = 0; block < config.blocks; ++block)
    for (const BlockPart part : block_parts(config)) {
      if (sharers(config, part).front() != part) continue;  // named with the first
      const PartPlace place = place_of(config, block, part);
      out.push_back({place.name + ".weight", place.shape});
      if (has_bias(config, part)) out.push_back({place.name + ".bias", {place.shape[place.transposed ? 1 : 0]}});
    }
  out.push_back({final_norm_name(config), {config.hidden}});
  if (const std::string name = final_norm_bias_name(config); !name.empty()) out.push_back({name, {config.hidden}});
  if (!config.tied_head) out.push_back({head_name(config), {config.vocab, config.hidden}});
  return out;
}

}  // namespace weft
