// llama.cpp's architectures, and what of a file's facts each becomes in a config.json. What files do not say is what
// llama.cpp takes for granted: Gemma's scores are divided by the root of a head's columns, but for its largest models
// by that of the columns per head; every fourth block of SmolLM 3 has no positions.
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/llm/gguf/gguf_facts.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

void tell_nothing(const GgufFacts&, Json*) {}

void tell_attention_bias(const GgufFacts& f, Json* config) { (*config)["attention_bias"] = f.attention_bias; }

void tell_biases(const GgufFacts& f, Json* config) {
  tell_attention_bias(f, config);
  (*config)["mlp_bias"] = f.mlp_bias;
}

void tell_windows(const GgufFacts& f, Json* config) {
  Json types = Json::array();
  for (const bool windowed : f.windowed) types.push_back(windowed ? "sliding_attention" : "full_attention");
  (*config)["layer_types"] = types;
  if (f.window > 0) (*config)["sliding_window"] = f.window;
}

double gemma_scalar(const GgufFacts& f, std::int64_t largest) {
  return static_cast<double>(f.blocks == largest ? f.hidden / f.heads : f.head_dim);
}

void tell_gemma2(const GgufFacts& f, Json* config) {
  tell_windows(f, config);
  (*config)["query_pre_attn_scalar"] = gemma_scalar(f, 46);
  (*config)["attn_logit_softcapping"] = f.attention_cap > 0 ? Json(f.attention_cap) : Json();
  (*config)["final_logit_softcapping"] = f.logit_cap > 0 ? Json(f.logit_cap) : Json();
}

void tell_gemma3(const GgufFacts& f, Json* config) {
  tell_windows(f, config);
  (*config)["query_pre_attn_scalar"] = gemma_scalar(f, 62);
  (*config)["rope_local_base_freq"] = f.theta_in_window;
  if (f.logit_cap > 0) (*config)["final_logit_softcapping"] = f.logit_cap;
}

void tell_phi3(const GgufFacts& f, Json* config) {
  if (f.window > 0) (*config)["sliding_window"] = f.window;
}

void tell_granite(const GgufFacts& f, Json* config) {
  tell_biases(f, config);
  const double plain = 1 / std::sqrt(static_cast<double>(f.head_dim));
  (*config)["attention_multiplier"] = f.attention_scale > 0 ? f.attention_scale : plain;
  if (f.embedding_scale > 0) (*config)["embedding_multiplier"] = f.embedding_scale;
  if (f.residual_scale > 0) (*config)["residual_multiplier"] = f.residual_scale;
  if (f.logit_divisor > 0) (*config)["logits_scaling"] = f.logit_divisor;
}

void tell_smollm3(const GgufFacts& f, Json* config) {
  tell_biases(f, config);
  (*config)["no_rope_layer_interval"] = 4;
}

// The two families of before the gate have keys of their own for everything.
void tell_gpt2(const GgufFacts& f, Json* config) {
  *config = {{"n_embd", f.hidden},       {"n_layer", f.blocks},           {"n_head", f.heads},
             {"n_positions", f.context}, {"n_inner", f.intermediate},     {"layer_norm_epsilon", f.eps},
             {"vocab_size", f.vocab},    {"tie_word_embeddings", f.tied}, {"activation_function", "gelu_new"}};
}

// A share that gives so many columns back when a head's are multiplied with it and the rest is dropped.
double share(std::int64_t turned, std::int64_t head_dim) {
  return std::min(1.0, (static_cast<double>(turned) + 0.5) / static_cast<double>(head_dim));
}

void tell_gptneox(const GgufFacts& f, Json* config) {
  for (const char* key : {"rms_norm_eps", "head_dim", "num_key_value_heads", "rope_theta", "partial_rotary_factor"})
    config->erase(key);
  (*config)["layer_norm_eps"] = f.eps;
  (*config)["use_parallel_residual"] = f.parallel;
  (*config)["attention_bias"] = f.attention_bias;
  (*config)["rotary_emb_base"] = f.theta;
  (*config)["rotary_pct"] = share(f.turned, f.head_dim);
}

constexpr GgufFamily kGgufFamilies[] = {
    {"llama", "llama", false, true, false, tell_biases},
    {"qwen2", "qwen2", false, false, false, tell_nothing},
    {"qwen3", "qwen3", false, false, false, tell_attention_bias},
    {"gemma2", "gemma2", false, false, false, tell_gemma2},
    {"gemma3", "gemma3_text", false, false, false, tell_gemma3},
    {"phi3", "phi3", true, false, false, tell_phi3},
    {"olmo2", "olmo2", false, false, false, tell_attention_bias},
    {"granite", "granite", false, true, false, tell_granite},
    {"smollm3", "smollm3", false, true, false, tell_smollm3},
    {"gpt2", "gpt2", true, false, true, tell_gpt2},
    {"gptneox", "gpt_neox", true, false, true, tell_gptneox},
};

Json scaling_json(const GgufFacts& f) {
  Json out;
  if (!f.divisors.empty()) {
    out = {{"rope_type", "longrope"},
           {"short_factor", f.divisors},
           {"long_factor", f.long_divisors.empty() ? f.divisors : f.long_divisors},
           {"attention_factor", f.magnitude > 0 ? f.magnitude : 1.0}};
  } else if (f.scaling == "linear" || f.scaling == "yarn") {
    out = {{"rope_type", f.scaling}, {"factor", f.factor}};
    if (f.scaling == "yarn" && f.magnitude > 0) out["attention_factor"] = f.magnitude;
    if (f.beta_fast > 0) out["beta_fast"] = f.beta_fast;
    if (f.beta_slow > 0) out["beta_slow"] = f.beta_slow;
  }
  if (!out.is_null() && f.scaling != "linear" && f.original_context > 0)
    out["original_max_position_embeddings"] = f.original_context;
  return out;
}

}  // namespace

const GgufFamily& gguf_family(std::string_view architecture, const std::string& where) {
  std::string names;
  for (const GgufFamily& family : kGgufFamilies) {
    if (family.architecture == architecture) return family;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", family.architecture);
  }
  bad_input("{}: setting \"general.architecture\" is {}; of GGUF files {} are read, others from their folders", where,
            weft::quoted(architecture), names);
}

const GgufFamily* gguf_family_of(const ModelConfig& config) {
  const std::string_view type = config.model_type == "mistral" ? "llama" : std::string_view(config.model_type);
  for (const GgufFamily& family : kGgufFamilies)
    if (family.model_type == type) return &family;
  return nullptr;
}

Json gguf_config_json(const GgufFacts& f) {
  Json config = {{"vocab_size", f.vocab},
                 {"hidden_size", f.hidden},
                 {"intermediate_size", f.intermediate},
                 {"num_hidden_layers", f.blocks},
                 {"num_attention_heads", f.heads},
                 {"num_key_value_heads", f.kv_heads},
                 {"head_dim", f.head_dim},
                 {"max_position_embeddings", f.context},
                 {"rms_norm_eps", f.eps},
                 {"tie_word_embeddings", f.tied},
                 {"rope_theta", f.theta}};
  if (f.turned != f.head_dim) config["partial_rotary_factor"] = share(f.turned, f.head_dim);
  if (Json scaling = scaling_json(f); !scaling.is_null()) config["rope_scaling"] = std::move(scaling);
  f.family->tell(f, &config);
  config["model_type"] = f.family->model_type;
  if (!f.ends.empty()) config["eos_token_id"] = f.ends;
  return config;
}

void set_gguf_layout(bool fused, ModelConfig* config) {
  config->names = fused ? &kGgufFusedNames : &kGgufNames;
  config->root.clear();
  config->head = "output.weight";
  config->design.norm_adds_one = false;
}

}  // namespace weft
