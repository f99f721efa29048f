// Families of before the gate: LayerNorm, biases, a head of keys per head of queries.
#include "weft/base/error.h"
#include "weft/llm/model/config_rope.h"
#include "weft/llm/model/families.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

void set_plain(ModelConfig* c, const TensorNames& names, std::string_view root) {
  c->names = &names;
  c->root = root;
  c->design.norm = NormKind::layer;
  c->design.gated = false;
  c->kv_heads = c->heads;
}

}  // namespace

void read_gpt2(ConfigReader* r, ModelConfig* c) {
  c->hidden = r->integer("n_embd", 1, kMostColumns);
  c->blocks = r->integer("n_layer", 1, kMostLayers);
  c->heads = r->integer("n_head", 1, kMostColumns);
  c->max_positions = r->integer("n_positions", 1, kMostTokens);
  set_plain(c, kGpt2Names, "transformer.");
  own_head_dim(*r, c);
  c->intermediate = r->integer_or("n_inner", 4 * c->hidden, 1, kMostColumns);
  c->norm_eps = r->number_or("layer_norm_epsilon", 1e-5, 0, 1);
  Design& d = c->design;
  d.activation = r->activation("activation_function", "gelu_new");
  d.learned_positions = 0;
  d.qkv_bias = d.output_bias = d.mlp_bias = true;
  c->tied_head = r->flag_or("tie_word_embeddings", true);
  if (!r->flag_or("scale_attn_weights", true)) d.attention_scale = 1;
  r->must_be("scale_attn_by_inverse_layer_idx", false, "scores that shrink from layer to layer are not supported");
  r->must_be("add_cross_attention", false, "attention to an encoder is not supported");
  for (const char* key :
       {"n_ctx", "n_special", "output_past", "predict_special_tokens", "reorder_and_upcast_attn", "summary_activation",
        "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"})
    r->ignore(key);
}

void read_gpt_neox(ConfigReader* r, ModelConfig* c) {
  read_sizes(r, c);
  set_plain(c, kNeoxNames, "gpt_neox.");
  c->head = "embed_out.weight";
  own_head_dim(*r, c);
  c->intermediate = r->integer("intermediate_size", 1, kMostColumns);
  c->norm_eps = r->number_or("layer_norm_eps", 1e-5, 0, 1);
  Design& d = c->design;
  d.activation = r->activation("hidden_act", "gelu");
  d.parallel = r->flag_or("use_parallel_residual", true);
  d.qkv_bias = d.output_bias = r->flag_or("attention_bias", true);
  d.mlp_bias = true;
  c->tied_head = r->flag_or("tie_word_embeddings", false);
  one_rope(r, c, {.turned = 0.25, .theta_key = "rotary_emb_base", .turned_key = "rotary_pct"});
}

void read_opt(ConfigReader* r, ModelConfig* c) {
  read_sizes(r, c);
  set_plain(c, kOptNames, "model.decoder.");
  own_head_dim(*r, c);
  c->intermediate = r->integer("ffn_dim", 1, kMostColumns);
  Design& d = c->design;
  d.activation = r->activation("activation_function", "relu");
  d.learned_positions = 2;  // two rows for padding in front
  c->tied_head = r->flag_or("tie_word_embeddings", true);
  d.qkv_bias = d.output_bias = d.mlp_bias = r->flag_or("enable_bias", true);
  r->must_be("do_layer_norm_before", true, "norms behind the residual (OPT-350m) are not supported");
  r->must_be("_remove_final_layer_norm", false, "a model without its last norm is not supported");
  r->must_be("layer_norm_elementwise_affine", true, "norms without weights are not supported");
  const std::int64_t embedded = r->integer_or("word_embed_proj_dim", c->hidden, 1, kMostColumns);
  if (embedded != c->hidden)
    bad_input(
        "{}: \"word_embed_proj_dim\" is {} and \"hidden_size\" {}: projected embeddings (OPT-350m) are not supported; "
        "use another size of OPT",
        r->where(), embedded, c->hidden);
}

}  // namespace weft
