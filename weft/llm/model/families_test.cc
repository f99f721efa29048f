// Config files as they are published, sizes made small: every key of theirs is known, in the older spelling too, and
// the description is the family's.
#include "weft/llm/model/families.h"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/llm/model/config.h"

namespace weft {
namespace {

ModelConfig published(const char* text) { return parse_config(Json::parse(text), "config.json"); }

TEST(Families, SmolLm2IsALlama) {
  const ModelConfig c = published(R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 24,
    "initializer_range": 0.041666666666666664, "intermediate_size": 64, "is_llama_config": true,
    "max_position_embeddings": 8192, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 3,
    "num_hidden_layers": 2, "num_key_value_heads": 1, "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
    "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 100})");
  EXPECT_EQ(c.design.rotaries.at(0).theta, 100000);
  EXPECT_EQ(why_not_trainable(c.design), "");
}

TEST(Families, Qwen25HasWindowsThatAreNotUsed) {
  const ModelConfig c = published(R"({"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
    "bos_token_id": 50, "eos_token_id": 51, "hidden_act": "silu", "hidden_size": 24, "initializer_range": 0.02,
    "intermediate_size": 64, "max_position_embeddings": 32768, "max_window_layers": 1, "model_type": "qwen2",
    "num_attention_heads": 3, "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "transformers_version": "4.43.1", "use_cache": true, "use_mrope": false, "use_sliding_window": false,
    "vocab_size": 100})");
  EXPECT_TRUE(c.design.qkv_bias && !c.design.output_bias);
  EXPECT_EQ(c.design.block(1).window, 0);
}

TEST(Families, Gemma3InTheOlderSpelling) {
  const ModelConfig c = published(R"({"architectures": ["Gemma3ForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "attn_logit_softcapping": null, "bos_token_id": 2, "cache_implementation": "hybrid",
    "eos_token_id": [1, 10], "final_logit_softcapping": null, "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 24, "initializer_range": 0.02, "intermediate_size": 64, "max_position_embeddings": 32768,
    "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 7, "num_key_value_heads": 1,
    "pad_token_id": 0, "query_pre_attn_scalar": 16, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "rope_theta": 1000000, "sliding_window": 512,
    "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0", "use_cache": true,
    "vocab_size": 100})");
  EXPECT_TRUE(c.tied_head);
  EXPECT_EQ(c.design.norm_place, NormPlace::both);
  EXPECT_EQ(c.design.rotary_of(5)->kind, RotaryKind::linear);
  EXPECT_EQ(c.design.rotary_of(6)->kind, RotaryKind::plain);
  EXPECT_EQ(c.design.block(4).window, 512);
  EXPECT_EQ(c.eos, (std::vector<int>{1, 10}));
}

TEST(Families, Phi4MiniIsAPhi3) {
  const ModelConfig c = published(R"({"architectures": ["Phi3ForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}, "bos_token_id": 9,
    "embd_pdrop": 0.0, "eos_token_id": 9, "full_attn_mod": 1, "hidden_act": "silu", "hidden_size": 24,
    "initializer_range": 0.02, "intermediate_size": 64, "interpolate_factor": 1, "lm_head_bias": false,
    "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "phi3", "num_attention_heads": 3,
    "num_hidden_layers": 2, "num_key_value_heads": 1, "original_max_position_embeddings": 4096, "pad_token_id": 9,
    "partial_rotary_factor": 0.75, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_scaling": {"long_factor": [1, 2, 3],
    "short_factor": [1.0, 1.0, 1.0], "type": "longrope"}, "rope_theta": 10000.0, "sliding_window": 262144,
    "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0", "use_cache": true,
    "vocab_size": 100})");
  const RotaryDesign& rotary = c.design.rotaries.at(0);
  EXPECT_EQ(rotary.columns, 6);
  EXPECT_EQ(rotary.original_positions, 4096);
  EXPECT_NEAR(rotary.magnitude, std::sqrt(1 + std::log(32.0) / std::log(4096.0)), 1e-12);
}

TEST(Families, SmolLm3TurnsThreeOfFour) {
  const ModelConfig c = published(R"({"architectures": ["SmolLM3ForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": 12, "hidden_act": "silu", "hidden_size": 24,
    "initializer_range": 0.02, "intermediate_size": 64, "layer_types": ["full_attention", "full_attention",
    "full_attention", "full_attention"], "max_position_embeddings": 65536, "max_window_layers": 28, "mlp_bias": false,
    "model_type": "smollm3", "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0], "num_attention_heads": 3,
    "num_hidden_layers": 4, "num_key_value_heads": 1, "pad_token_id": 12, "pretraining_tp": 2, "rms_norm_eps": 1e-06,
    "rope_scaling": null, "rope_theta": 5000000.0, "sliding_window": null, "torch_dtype": "bfloat16",
    "transformers_version": "4.54.0.dev0", "use_cache": false, "use_sliding_window": false, "vocab_size": 100})");
  EXPECT_NE(c.design.rotary_of(2), nullptr);
  EXPECT_EQ(c.design.rotary_of(3), nullptr);
}

TEST(Families, Gpt2AndPythiaHaveTheirOwnKeys) {
  const ModelConfig gpt2 = published(R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1, "bos_token_id": 9, "embd_pdrop": 0.1, "eos_token_id": 9, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 24, "n_head": 3, "n_layer": 2,
    "n_positions": 1024, "n_special": 0, "output_past": true, "predict_special_tokens": true, "resid_pdrop": 0.1,
    "summary_activation": null, "summary_first_dropout": 0.1, "summary_proj_to_labels": true,
    "summary_type": "cls_index", "summary_use_proj": true,
    "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 100})");
  EXPECT_EQ(gpt2.design.learned_positions, 0);
  EXPECT_TRUE(gpt2.tied_head);
  const ModelConfig pythia = published(R"({"architectures": ["GPTNeoXForCausalLM"], "bos_token_id": 0,
    "eos_token_id": 0, "hidden_act": "gelu", "hidden_size": 48, "initializer_range": 0.02, "intermediate_size": 64,
    "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 3,
    "num_hidden_layers": 2, "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false,
    "torch_dtype": "float16", "transformers_version": "4.24.0", "use_cache": true, "use_parallel_residual": true,
    "vocab_size": 100})");
  EXPECT_TRUE(pythia.design.parallel);
  EXPECT_EQ(pythia.design.activation, Activation::gelu_erf);
  EXPECT_EQ(pythia.design.rotaries.at(0).columns, 4);
}

TEST(Families, AreListedWhereAnotherIsAskedFor) {
  const std::string said = refusal([] { published(R"({"model_type": "bloom"})"); });
  for (const Family& family : families())
    EXPECT_NE(said.find(family.model_type), std::string::npos) << family.model_type;
}

}  // namespace
}  // namespace weft
