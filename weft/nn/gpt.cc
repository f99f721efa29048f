#include "weft/nn/gpt.h"

#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json_out.h"

namespace weft {
namespace {

std::uint64_t mix(std::uint64_t z) {  // the finaliser of splitmix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::uint64_t hash_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

const char* name_of(BlockParam param) {
  switch (param) {
    case BlockParam::norm1_weight:
      return "input_layernorm";
    case BlockParam::norm2_weight:
      return "post_attention_layernorm";
    case BlockParam::q_weight:
      return "self_attn.q_proj";
    case BlockParam::k_weight:
      return "self_attn.k_proj";
    case BlockParam::v_weight:
      return "self_attn.v_proj";
    case BlockParam::o_weight:
      return "self_attn.o_proj";
    case BlockParam::gate_weight:
      return "mlp.gate_proj";
    case BlockParam::up_weight:
      return "mlp.up_proj";
    case BlockParam::down_weight:
      return "mlp.down_proj";
    default:
      bad_input("a GPT has no block parameter {}", static_cast<int>(param));
  }
}

int split_of(BlockParam param) {
  if (param == BlockParam::norm1_weight || param == BlockParam::norm2_weight) return -1;
  return param == BlockParam::o_weight || param == BlockParam::down_weight ? 1 : 0;
}

void check_size(const char* name, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) bad_input("model: \"{}\" is {}; use 1 to {}", name, value, most);
}

}  // namespace

void check_gpt(const GptShape& s) {
  check_size("vocab", s.vocab, 1 << 20);
  check_size("hidden", s.hidden, 1 << 16);
  check_size("layers", s.layers, 1024);
  check_size("heads", s.heads, 1024);
  check_size("kv_heads", s.kv_heads, 1024);
  check_size("mlp", s.mlp, 1 << 18);
  check_size("sequence", s.sequence, 1 << 16);
  if (s.hidden % (2 * s.heads) != 0)
    bad_input("model: \"hidden\" is {} and \"heads\" {}; use a hidden size that is a multiple of 2 x heads, such as {}",
              s.hidden, s.heads, (s.hidden / (2 * s.heads) + 1) * 2 * s.heads);
  if (s.heads % s.kv_heads != 0)
    bad_input("model: \"heads\" is {} and \"kv_heads\" {}; kv_heads must divide heads", s.heads, s.kv_heads);
  if (s.u_shaped && s.layers < 2) bad_input("model: a u_transformer of {} layer has no skips; use 2 or more", s.layers);
}

BlockShape block_of(const GptShape& s, std::int64_t sequences, int ranks) {
  BlockShape block{.hidden = s.hidden, .mlp = s.mlp / ranks, .eps = s.eps};
  AttentionLayer& attention = block.attention;
  attention = {.sequence = s.sequence, .sequences = sequences, .head_dim = s.head_dim(), .kv_of = {}};
  attention.kv_heads = s.kv_heads / ranks;
  for (std::int64_t h = 0; h < s.heads / ranks; ++h)
    attention.kv_of.push_back(static_cast<std::int32_t>(h / (s.heads / s.kv_heads)));
  return block;
}

RotaryTable rotary_of(const GptShape& s) {
  std::vector<double> rates;
  for (std::int64_t i = 0; i < s.head_dim() / 2; ++i)
    rates.push_back(std::pow(s.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(s.head_dim())));
  return make_rotary_table(s.sequence, rates);
}

GptTensor gpt_embedding(const GptShape& s) { return {"model.embed_tokens.weight", {s.vocab, s.hidden}}; }
GptTensor gpt_final_norm(const GptShape& s) { return {"model.norm.weight", {s.hidden}}; }
GptTensor gpt_head(const GptShape& s) { return {"lm_head.weight", {s.vocab, s.hidden}}; }

std::vector<BlockParam> gpt_block_params() {
  return {BlockParam::norm1_weight, BlockParam::norm2_weight, BlockParam::k_weight,
          BlockParam::v_weight,     BlockParam::q_weight,     BlockParam::o_weight,
          BlockParam::gate_weight,  BlockParam::up_weight,    BlockParam::down_weight};
}

GptTensor gpt_block_tensor(const GptShape& shape, std::int64_t layer, BlockParam param) {
  const BlockLayout::Place place = BlockLayout(block_of(shape, 1, 1))[param];
  GptTensor tensor{fmt::format("model.layers.{}.{}.weight", layer, name_of(param)), {place.rows}, split_of(param)};
  if (tensor.split >= 0) tensor.shape.push_back(place.cols);
  return tensor;
}

std::int64_t num_parameters(const GptShape& s) {
  return 2 * s.vocab * s.hidden + s.hidden + s.layers * BlockLayout(block_of(s, 1, 1)).size();
}

FirstValues::FirstValues(const GptShape& shape, const GptTensor& tensor, std::uint64_t seed)
    : key_(mix(hash_of(tensor.name) + seed * 0x9e3779b97f4a7c15u)),
      width_(tensor.shape.size() == 1 ? 0 : 0.02 * std::sqrt(3.0)) {
  if (tensor.split == 1) width_ /= std::sqrt(2.0 * static_cast<double>(shape.layers));
}

float FirstValues::at(std::int64_t index) const {
  if (width_ == 0) return 1.0f;
  const std::uint64_t bits = mix(key_ + static_cast<std::uint64_t>(index));
  return static_cast<float>((static_cast<double>(bits >> 40) * 0x1p-23 - 1.0) * width_);
}

std::string llama_config(const GptShape& s, const std::string& dtype, int bos, int eos) {
  nlohmann::ordered_json json{{"architectures", {"LlamaForCausalLM"}},
                              {"model_type", "llama"},
                              {"vocab_size", s.vocab},
                              {"hidden_size", s.hidden},
                              {"num_hidden_layers", s.layers},
                              {"num_attention_heads", s.heads},
                              {"num_key_value_heads", s.kv_heads},
                              {"head_dim", s.head_dim()},
                              {"intermediate_size", s.mlp},
                              {"max_position_embeddings", s.sequence},
                              {"rms_norm_eps", s.eps},
                              {"rope_theta", s.rope_theta},
                              {"hidden_act", "silu"},
                              {"attention_bias", false},
                              {"mlp_bias", false},
                              {"tie_word_embeddings", false},
                              {"torch_dtype", dtype}};
  if (bos >= 0) json["bos_token_id"] = bos;
  if (eos >= 0) json["eos_token_id"] = eos;
  return json_lines(json);
}

}  // namespace weft
