#include "weft/llm/model/families.h"

#include <cmath>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/llm/model/config_rope.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {

void read_sizes(ConfigReader* r, ModelConfig* c) {
  c->hidden = r->integer("hidden_size", 1, kMostColumns);
  c->blocks = r->integer("num_hidden_layers", 1, kMostLayers);
  c->heads = r->integer("num_attention_heads", 1, kMostColumns);
  c->max_positions = r->integer("max_position_embeddings", 1, kMostTokens);
}

void own_head_dim(const ConfigReader& r, ModelConfig* c) {
  if (c->hidden % c->heads != 0)
    bad_input("{}: \"hidden_size\" is {}, no multiple of {} heads, and there is no \"head_dim\"; add one", r.where(),
              c->hidden, c->heads);
  c->head_dim = c->hidden / c->heads;
}

void one_rope(ConfigReader* r, ModelConfig* c, const RopeDefaults& defaults) {
  c->design.rotaries = {read_rope(r, *c, defaults)};
}

namespace {

// `head_dim` where the file has none; 0: hidden / heads.
void read_heads(ConfigReader* r, ModelConfig* c, std::int64_t head_dim = 0) {
  c->kv_heads = r->integer_or("num_key_value_heads", c->heads, 1, c->heads);
  if (c->heads % c->kv_heads != 0)
    bad_input("{}: \"num_key_value_heads\" is {}, which does not divide the {} attention heads; is the file whole?",
              r->where(), c->kv_heads, c->heads);
  if (r->has("head_dim"))
    c->head_dim = r->integer("head_dim", 2, 4096);
  else if (head_dim > 0)
    c->head_dim = head_dim;
  else
    own_head_dim(*r, c);
}

// What Llama and those who follow it have in common; positions are the caller's.
void read_gated(ConfigReader* r, ModelConfig* c, double eps, std::int64_t head_dim = 0) {
  read_sizes(r, c);
  read_heads(r, c, head_dim);
  c->intermediate = r->integer("intermediate_size", 1, kMostColumns);
  c->norm_eps = r->number_or("rms_norm_eps", eps, 0, 1);
}

// The same with what most of them go on with.
struct SiluDefaults {
  double eps = 1e-6;
  std::int64_t head_dim = 0;
  bool tied_head = false;
};
void read_silu(ConfigReader* r, ModelConfig* c, const SiluDefaults& defaults = {}) {
  read_gated(r, c, defaults.eps, defaults.head_dim);
  c->design.activation = r->activation("hidden_act", "silu");
  c->tied_head = r->flag_or("tie_word_embeddings", defaults.tied_head);
}

void refuse_biases(ConfigReader* r) {
  for (const char* key : {"attention_bias", "mlp_bias"}) r->must_be(key, false, "this family has no biases");
}

void read_biases(ConfigReader* r, ModelConfig* c) {
  c->design.qkv_bias = c->design.output_bias = r->flag_or("attention_bias", false);
}

void same_blocks(ModelConfig* c, const BlockDesign& block) { c->design.blocks.assign(num(c->blocks), block); }

// "layer_types" where the file has them: true for blocks with a window. `otherwise(i)` where it has none.
template <typename Otherwise>
std::vector<bool> sliding_blocks(ConfigReader* r, const ModelConfig& c, const Otherwise& otherwise) {
  std::vector<bool> out;
  if (!r->has("layer_types")) {
    for (std::int64_t i = 0; i < c.blocks; ++i) out.push_back(otherwise(i));
    return out;
  }
  for (const std::string& type : r->texts("layer_types")) {
    if (type != "full_attention" && type != "sliding_attention")
      bad_input("{}: \"layer_types\" holds {}; Weft has full_attention and sliding_attention", r->where(),
                weft::quoted(type));
    out.push_back(type == "sliding_attention");
  }
  if (std::ssize(out) != c.blocks)
    bad_input("{}: \"layer_types\" has {} entries for {} layers; is the file whole?", r->where(), out.size(), c.blocks);
  return out;
}

void set_windows(ModelConfig* c, const std::vector<bool>& sliding, std::int64_t window) {
  same_blocks(c, {});
  for (std::size_t i = 0; i < sliding.size(); ++i) c->design.blocks[i].window = sliding[i] ? window : 0;
}

// Qwen's windows: the blocks from max_window_layers on, where use_sliding_window says so.
void read_qwen_windows(ConfigReader* r, ModelConfig* c) {
  const bool used = r->flag_or("use_sliding_window", false);
  const std::int64_t window = r->integer_or("sliding_window", 4096, 1, kMostTokens);
  const std::int64_t first = r->integer_or("max_window_layers", 28, 0, kMostLayers);
  const auto sliding = sliding_blocks(r, *c, [&](std::int64_t i) { return used && i >= first; });
  set_windows(c, sliding, used ? window : 0);
}

void read_llama(ConfigReader* r, ModelConfig* c) {
  read_silu(r, c);
  read_biases(r, c);
  c->design.mlp_bias = r->flag_or("mlp_bias", false);
  one_rope(r, c);
}

void read_mistral(ConfigReader* r, ModelConfig* c) {
  read_silu(r, c);
  refuse_biases(r);
  same_blocks(c, {.window = r->integer_or("sliding_window", 0, 1, kMostTokens)});
  one_rope(r, c);
}

void read_mixtral(ConfigReader* r, ModelConfig* c) {
  read_mistral(r, c);
  c->design.experts = {r->integer("num_local_experts", 1, 65536), r->integer("num_experts_per_tok", 1, 65536)};
  for (const char* key : {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"}) r->ignore(key);
}

void read_qwen2(ConfigReader* r, ModelConfig* c) {
  read_silu(r, c);
  c->design.qkv_bias = true;
  read_qwen_windows(r, c);
  r->must_be("use_mrope", false, "positions of pictures are not supported");
  one_rope(r, c);
}

void read_qwen3(ConfigReader* r, ModelConfig* c) {
  read_silu(r, c, {.head_dim = 128});
  c->design.qk_norm = QkNorm::head;
  read_biases(r, c);
  read_qwen_windows(r, c);
  one_rope(r, c);
}

void read_qwen3_moe(ConfigReader* r, ModelConfig* c) {
  read_qwen3(r, c);
  c->design.experts = {r->integer("num_experts", 1, 65536), r->integer("num_experts_per_tok", 1, 65536)};
  for (const char* key : {"decoder_sparse_step", "mlp_only_layers", "moe_intermediate_size", "norm_topk_prob",
                          "output_router_logits", "router_aux_loss_coef"})
    r->ignore(key);
}

// What Gemma 2 and 3 share.
void read_gemma(ConfigReader* r, ModelConfig* c) {
  read_gated(r, c, 1e-6, 256);
  Design& d = c->design;
  c->names = &kGemmaNames;
  d.norm_place = NormPlace::both;
  d.norm_adds_one = true;
  d.activation = r->activation("hidden_activation", "gelu_pytorch_tanh");
  r->ignore("hidden_act");  // transformers reads hidden_activation alone
  c->tied_head = r->flag_or("tie_word_embeddings", true);
  read_biases(r, c);
  d.embedding_scale = std::sqrt(static_cast<double>(c->hidden));
  d.attention_scale = 1 / std::sqrt(r->number_or("query_pre_attn_scalar", 256, 1e-3, 1e6));
  r->must_be("use_bidirectional_attention", false, "attention to what follows is not supported");
}

// A key that is null says "none", one that is left out the family's default.
double cap_or(ConfigReader* r, std::string_view key, double otherwise) {
  const Json* field = find_field(r->json(), key, r->where());
  if (field == nullptr) return otherwise;
  return r->number_or(key, 0, 1e-3, 1e6);
}

void read_gemma2(ConfigReader* r, ModelConfig* c) {
  read_gemma(r, c);
  c->design.attention_cap = cap_or(r, "attn_logit_softcapping", 50);
  c->design.logit_cap = cap_or(r, "final_logit_softcapping", 30);
  const std::int64_t window = r->integer_or("sliding_window", 4096, 1, kMostTokens);
  r->ignore("sliding_window_size");  // an older name beside it, which transformers does not read
  set_windows(c, sliding_blocks(r, *c, [](std::int64_t i) { return i % 2 == 0; }), window);
  one_rope(r, c);
}

void read_gemma3(ConfigReader* r, ModelConfig* c) {
  read_gemma(r, c);
  Design& d = c->design;
  d.qk_norm = QkNorm::head;
  d.logit_cap = r->number_or("final_logit_softcapping", 0, 1e-3, 1e6);
  r->must_be_absent("attn_logit_softcapping", "transformers does not cap the scores of this family; set it to null");
  const std::int64_t window = r->integer_or("sliding_window", 4096, 1, kMostTokens);
  std::int64_t pattern = r->integer_or("_sliding_window_pattern", 6, 1, kMostLayers);
  pattern = r->integer_or("sliding_window_pattern", pattern, 1, kMostLayers);
  const auto sliding = sliding_blocks(r, *c, [&](std::int64_t i) { return (i + 1) % pattern != 0; });
  set_windows(c, sliding, window);
  for (std::size_t i = 0; i < sliding.size(); ++i) d.blocks[i].rotary = sliding[i] ? 1 : 0;
  d.rotaries = read_rope_pair(r, *c);
}

void read_phi3(ConfigReader* r, ModelConfig* c) {
  read_silu(r, c, {.eps = 1e-5});
  c->names = &kPhi3Names;
  refuse_biases(r);
  r->must_be("lm_head_bias", false, "a head with a bias is not supported");
  for (const char* key : {"full_attn_mod", "interpolate_factor"}) r->ignore(key);  // transformers does not read them
  same_blocks(c, {.window = r->integer_or("sliding_window", 0, 1, kMostTokens)});
  one_rope(r, c);
}

void read_olmo2(ConfigReader* r, ModelConfig* c) {
  read_silu(r, c, {.eps = 1e-5});
  c->names = &kGemmaNames;
  c->design.norm_place = NormPlace::after;
  c->design.qk_norm = QkNorm::whole;
  read_biases(r, c);
  one_rope(r, c);
}

void read_granite(ConfigReader* r, ModelConfig* c) {
  read_llama(r, c);
  Design& d = c->design;
  d.embedding_scale = r->number_or("embedding_multiplier", 1, 1e-6, 1e6);
  d.residual_scale = r->number_or("residual_multiplier", 1, 1e-6, 1e6);
  d.attention_scale = r->number_or("attention_multiplier", 1, 1e-6, 1e6);
  d.logit_scale = 1 / r->number_or("logits_scaling", 1, 1e-6, 1e6);
}

void read_smollm3(ConfigReader* r, ModelConfig* c) {
  read_silu(r, c, {.tied_head = true});
  read_biases(r, c);
  c->design.mlp_bias = r->flag_or("mlp_bias", false);
  const std::int64_t interval = r->integer_or("no_rope_layer_interval", 4, 1, kMostLayers);
  std::vector<std::int64_t> turned;
  for (std::int64_t i = 0; i < c->blocks; ++i) turned.push_back((i + 1) % interval != 0);
  if (r->has("no_rope_layers")) turned = r->integers("no_rope_layers", 0, 1);
  if (std::ssize(turned) < c->blocks)
    bad_input("{}: \"no_rope_layers\" has {} entries for {} layers; is the file whole?", r->where(), turned.size(),
              c->blocks);
  const bool used = r->flag_or("use_sliding_window", false);
  const std::int64_t window = r->integer_or("sliding_window", 0, 1, kMostTokens);
  r->ignore("max_window_layers");  // Qwen's, written beside layer_types and not read
  set_windows(c, sliding_blocks(r, *c, [&](std::int64_t i) { return used && turned[at(i)] == 0; }), used ? window : 0);
  for (std::int64_t i = 0; i < c->blocks; ++i) c->design.blocks[at(i)].rotary = turned[at(i)] == 1 ? 0 : -1;
  one_rope(r, c, {.theta = 2e6});
}

constexpr Family kFamilies[] = {
    {"gemma2", read_gemma2},     {"gemma3_text", read_gemma3},  {"gpt2", read_gpt2},
    {"gpt_neox", read_gpt_neox}, {"granite", read_granite},     {"llama", read_llama},
    {"mistral", read_mistral},   {"mixtral", read_mixtral},     {"olmo2", read_olmo2},
    {"opt", read_opt},           {"phi3", read_phi3},           {"qwen2", read_qwen2},
    {"qwen3", read_qwen3},       {"qwen3_moe", read_qwen3_moe}, {"smollm3", read_smollm3},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

}  // namespace weft
