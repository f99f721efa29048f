#include "weft/llm/model/config.h"

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/llm/model/config_rope.h"

namespace weft {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;  // exact as f32: what ranks exchange of a token
constexpr std::int64_t kMostColumns = std::int64_t{1} << 20;
constexpr std::int64_t kMostBlocks = 4096;

// Null counts as left out: transformers writes it for "none".
const Json* given(const Json& json, std::string_view key, const std::string& where) {
  const Json* field = find_field(json, key, where);
  return field == nullptr || field->is_null() ? nullptr : field;
}

std::int64_t int_or(const Json& json, std::string_view key, const std::string& where, std::int64_t otherwise,
                    std::int64_t min, std::int64_t max) {
  return given(json, key, where) == nullptr ? otherwise : get_int(json, key, where, min, max);
}

bool bool_or(const Json& json, std::string_view key, const std::string& where, bool otherwise) {
  return given(json, key, where) == nullptr ? otherwise : get_bool(json, key, where);
}

Activation activation_of(const Json& json, std::string_view key, const std::string& where, std::string_view otherwise) {
  const std::string name = given(json, key, where) == nullptr ? std::string(otherwise) : get_string(json, key, where);
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "relu") return Activation::relu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu;
  bad_input("{}: \"{}\" is {}, which Weft does not compute; it has silu, relu and gelu_new", where, key,
            weft::quoted(name));
}

std::vector<int> tokens_of(const Json& json, std::string_view key, const std::string& where, std::int64_t vocab) {
  const Json* field = given(json, key, where);
  if (field == nullptr) return {};
  std::vector<std::int64_t> ids;
  if (field->is_array())
    ids = get_ints(json, key, where, 0, vocab - 1);
  else
    ids = {get_int(json, key, where, 0, vocab - 1)};
  return {ids.begin(), ids.end()};
}

void read_common(const Json& json, const std::string& where, ModelConfig* config) {
  config->vocab = get_int(json, "vocab_size", where, 1, kMostTokens);
  config->hidden = get_int(json, "hidden_size", where, 1, kMostColumns);
  config->blocks = get_int(json, "num_hidden_layers", where, 1, kMostBlocks);
  config->heads = get_int(json, "num_attention_heads", where, 1, kMostColumns);
  config->max_positions = get_int(json, "max_position_embeddings", where, 1, kMostTokens);
  config->eos = tokens_of(json, "eos_token_id", where, config->vocab);
  if (const Json* quantised = given(json, "quantization_config", where); quantised != nullptr)
    bad_input("{}: \"quantization_config\" is there: quantised weights are not read; use the f32, f16 or bf16 model",
              where);
}

void read_heads(const Json& json, const std::string& where, ModelConfig* config) {
  config->kv_heads = int_or(json, "num_key_value_heads", where, config->heads, 1, config->heads);
  if (config->heads % config->kv_heads != 0)
    bad_input("{}: \"num_key_value_heads\" is {}, which does not divide the {} attention heads; is the file whole?",
              where, config->kv_heads, config->heads);
  if (given(json, "head_dim", where) != nullptr) {
    config->head_dim = get_int(json, "head_dim", where, 2, 4096);
  } else {
    if (config->hidden % config->heads != 0)
      bad_input("{}: \"hidden_size\" is {}, no multiple of {} heads, and there is no \"head_dim\"; add one", where,
                config->hidden, config->heads);
    config->head_dim = config->hidden / config->heads;
  }
  if (config->family == ModelFamily::llama && config->head_dim % 2 != 0)
    bad_input("{}: a head has {} columns, but rotary positions turn pairs; \"head_dim\" must be even", where,
              config->head_dim);
}

ModelConfig parse_llama(const Json& json, const std::string& where, bool mistral) {
  ModelConfig config;
  config.family = ModelFamily::llama;
  read_common(json, where, &config);
  read_heads(json, where, &config);
  config.intermediate = get_int(json, "intermediate_size", where, 1, kMostColumns);
  config.norm_eps =
      given(json, "rms_norm_eps", where) == nullptr ? 1e-6 : get_double(json, "rms_norm_eps", where, 0, 1);
  config.activation = activation_of(json, "hidden_act", where, "silu");
  config.tied_head = bool_or(json, "tie_word_embeddings", where, false);
  config.attention_bias = bool_or(json, "attention_bias", where, false);
  config.mlp_bias = bool_or(json, "mlp_bias", where, false);
  if (mistral) config.sliding_window = int_or(json, "sliding_window", where, 0, 1, kMostTokens);
  read_rope(json, where, &config);
  return config;
}

void refuse_odd_opt(const Json& json, const std::string& where, const ModelConfig& config) {
  if (!bool_or(json, "do_layer_norm_before", where, true))
    bad_input(
        "{}: \"do_layer_norm_before\" is false: norms behind the residual (OPT-350m) are not supported; use "
        "another size of OPT",
        where);
  const std::int64_t embedded = int_or(json, "word_embed_proj_dim", where, config.hidden, 1, kMostColumns);
  if (embedded != config.hidden)
    bad_input(
        "{}: \"word_embed_proj_dim\" is {} and \"hidden_size\" {}: projected embeddings (OPT-350m) are not "
        "supported; use another size of OPT",
        where, embedded, config.hidden);
  if (bool_or(json, "_remove_final_layer_norm", where, false))
    bad_input("{}: \"_remove_final_layer_norm\" is true, which is not supported; use a checkpoint with the last norm",
              where);
  if (!bool_or(json, "layer_norm_elementwise_affine", where, true))
    bad_input(
        "{}: \"layer_norm_elementwise_affine\" is false, which is not supported; use a model whose norms have "
        "weights",
        where);
}

ModelConfig parse_opt(const Json& json, const std::string& where) {
  ModelConfig config;
  config.family = ModelFamily::opt;
  read_common(json, where, &config);
  config.kv_heads = config.heads;
  if (config.hidden % config.heads != 0)
    bad_input("{}: \"hidden_size\" is {}, no multiple of {} heads; is the file whole?", where, config.hidden,
              config.heads);
  config.head_dim = config.hidden / config.heads;
  config.intermediate = get_int(json, "ffn_dim", where, 1, kMostColumns);
  config.activation = activation_of(json, "activation_function", where, "relu");
  config.tied_head = bool_or(json, "tie_word_embeddings", where, true);
  config.attention_bias = config.mlp_bias = bool_or(json, "enable_bias", where, true);
  refuse_odd_opt(json, where, config);
  return config;
}

}  // namespace

ModelConfig parse_config(const Json& json, const std::string& where) {
  const std::string type = get_string(json, "model_type", where);
  if (type != "llama" && type != "mistral" && type != "opt")
    bad_input("{}: \"model_type\" is {}; Weft reads llama, mistral and opt", where, weft::quoted(type));
  ModelConfig config = type == "opt" ? parse_opt(json, where) : parse_llama(json, where, type == "mistral");
  config.file = where;
  if (config.heads * config.head_dim > kMostColumns)
    bad_input("{}: {} heads of {} columns are {}; at most {} are read", where, config.heads, config.head_dim,
              config.heads * config.head_dim, kMostColumns);
  return config;
}

ModelConfig load_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  return parse_config(load_json(path, {.bytes = std::size_t{1} << 20}), path);
}

std::int64_t num_parameters(const ModelConfig& c) {
  const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const std::int64_t norm = c.family == ModelFamily::opt ? 2 * c.hidden : c.hidden;
  std::int64_t block = 2 * norm + c.hidden * (2 * q + 2 * kv) + c.hidden * c.intermediate * (c.gated() ? 3 : 2);
  if (c.attention_bias) block += q + 2 * kv + c.hidden;
  if (c.mlp_bias) block += c.intermediate * (c.gated() ? 2 : 1) + c.hidden;
  const std::int64_t positions = c.family == ModelFamily::opt ? (c.max_positions + 2) * c.hidden : 0;
  return c.vocab * c.hidden * (c.tied_head ? 1 : 2) + positions + norm + c.blocks * block;
}

}  // namespace weft
