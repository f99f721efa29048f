// config.json in both spellings, and every way it can be wrong: a sentence that names the file and the field.
#include "weft/llm/model/config.h"

#include <functional>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/base/refusal_test.h"
#include "weft/llm/engine/golden_test.h"
#include "weft/llm/model/shard.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

Json llama() {
  return Json::parse(R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64})");
}

TEST(Config, ReadsTheOldAndTheNewSpelling) {
  const ModelConfig old = load_config(golden_folders()[0]), fresh = load_config(golden_folders()[1]);
  ASSERT_EQ(old.design.rotaries.size(), 1u);
  EXPECT_EQ(old.design.rotaries[0].theta, 10000);
  EXPECT_EQ(old.design.rotaries[0].kind, RotaryKind::plain);
  EXPECT_TRUE(old.tied_head);
  EXPECT_EQ(old.eos, std::vector<int>{0});
  EXPECT_EQ(num_parameters(old), 15'737'088);
  EXPECT_EQ(fresh.design.rotaries[0].theta, 500000);
  EXPECT_EQ(fresh.design.rotaries[0].kind, RotaryKind::llama3);
  EXPECT_EQ(fresh.heads_per_kv(), 3);
  EXPECT_EQ(load_config(golden_folders()[3]).design.block(2).window, 16);
  const ModelConfig opt = load_config(golden_folders()[4]);
  EXPECT_EQ(opt.design.norm, NormKind::layer);
  EXPECT_EQ(opt.design.learned_positions, 2);
  EXPECT_TRUE(opt.design.qkv_bias && opt.design.output_bias && opt.design.mlp_bias && opt.tied_head);
}

TEST(Config, LinearScalingDividesEveryRate) {
  Json json = llama();
  const auto rates_of = [](const Json& from) {
    return rotary_rates(parse_config(from, "f").design.rotaries.at(0), 64);
  };
  const auto plain = rates_of(json);
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  const auto scaled = rates_of(json);
  ASSERT_EQ(scaled.size(), 4u);
  for (std::size_t i = 0; i < scaled.size(); ++i) EXPECT_DOUBLE_EQ(scaled[i] * 4, plain[i]);
  json["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 4.0}};
  EXPECT_EQ(rates_of(json), plain);  // within max_position_embeddings
}

TEST(Config, RefusesWhatItCannotCompute) {
  const auto refused = [](const char* patch) {
    Json json = llama();
    json.merge_patch(Json::parse(patch));
    const std::string said = refusal([&] { parse_config(json, "m/config.json"); });
    EXPECT_TRUE(said.starts_with("m/config.json")) << said;
    return said;
  };
  const auto says = [](const std::string& said, const char* part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  says(refused(R"({"model_type": "bert"})"), "bert");
  says(refused(R"({"model_type": "gemma3"})"), "gemma3_text");
  says(refused(R"({"model_type": null})"), "model_type");
  says(refused(R"({"vocab_size": 0})"), "vocab_size");
  says(refused(R"({"vocab_size": 1e30})"), "vocab_size");
  says(refused(R"({"hidden_size": -1})"), "hidden_size");
  says(refused(R"({"hidden_size": "32"})"), "hidden_size");
  says(refused(R"({"num_hidden_layers": 9999999})"), "num_hidden_layers");
  says(refused(R"({"num_key_value_heads": 3})"), "num_key_value_heads");
  says(refused(R"({"num_attention_heads": 5})"), "head_dim");
  says(refused(R"({"head_dim": 7})"), "head_dim");
  says(refused(R"({"hidden_act": "quick_gelu"})"), "hidden_act");
  says(refused(R"({"eos_token_id": 100})"), "eos_token_id");
  says(refused(R"({"rms_norm_eps": -1})"), "rms_norm_eps");
  says(refused(R"({"rope_scaling": {"type": "ntk", "factor": 2}})"), "ntk");
  says(refused(R"({"rope_scaling": {"type": "linear", "factor": 2, "mrope_section": [1]}})"), "mrope_section");
  says(refused(R"({"rope_scaling": {"type": "longrope", "short_factor": [1], "long_factor": [1, 2, 3, 4]}})"),
       "short_factor");
  says(refused(R"({"rope_scaling": {"type": "longrope", "short_factor": ["a"], "long_factor": []}})"), "short_factor");
  says(refused(R"({"rope_interleaved": true})"), "rope_interleaved");
  says(refused(R"({"rope_scaling": {"type": "linear"}})"), "factor");
  says(refused(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1,
                                    "original_max_position_embeddings": 64}})"),
       "high_freq_factor");
  says(refused(R"({"rope_parameters": {"rope_theta": 0}})"), "rope_theta");
  says(refused(R"({"partial_rotary_factor": 0.1})"), "partial_rotary_factor");
  says(refused(R"({"partial_rotary_factor": 2})"), "partial_rotary_factor");
  says(refused(R"({"quantization_config": {"bits": 4}})"), "quantization_config");
  says(refused(R"({"model_type": "opt", "ffn_dim": 64, "word_embed_proj_dim": 16})"), "word_embed_proj_dim");
  says(refused(R"({"model_type": "opt", "ffn_dim": 64, "do_layer_norm_before": false})"), "do_layer_norm_before");
}

// The keys of a family that have one value Weft computes with, each with another; and keys that nobody knows.
TEST(Config, RefusesEveryKeyThatWouldChangeTheResult) {
  const struct {
    const char *type, *key, *value;
  } cases[] = {
      {"llama", "num_local_experts", "8"},
      {"llama", "sliding_window", "16"},
      {"llama", "attn_logit_softcapping", "30.0"},
      {"llama", "embedding_multiplier", "12.0"},
      {"llama", "pruned_heads", "{\"0\": [1]}"},
      {"llama", "is_encoder_decoder", "true"},
      {"llama", "add_cross_attention", "true"},
      {"llama", "something_new", "1"},
      {"mistral", "attention_bias", "true"},
      {"qwen2", "use_mrope", "true"},
      {"qwen2", "layer_types", "[\"full_attention\"]"},
      {"qwen2", "layer_types", "[\"full_attention\", \"chunked_attention\"]"},
      {"qwen3", "num_experts", "4"},
      {"gemma2", "use_bidirectional_attention", "true"},
      {"gemma2", "final_logit_softcapping", "-1"},
      {"gemma3_text", "attn_logit_softcapping", "50.0"},
      {"phi3", "attention_bias", "true"},
      {"phi3", "mlp_bias", "true"},
      {"phi3", "lm_head_bias", "true"},
      {"olmo2", "clip_qkv", "8.0"},
      {"granite", "logits_scaling", "0"},
      {"smollm3", "no_rope_layers", "[1]"},
      {"smollm3", "no_rope_layers", "[1, 2]"},
      {"gpt_neox", "num_key_value_heads", "2"},
      {"opt", "_remove_final_layer_norm", "true"},
      {"opt", "layer_norm_elementwise_affine", "false"},
  };
  for (const auto& [type, key, value] : cases) {
    Json json = llama();
    json["model_type"] = type;
    if (std::string_view(type) == "opt") json.erase("intermediate_size"), json["ffn_dim"] = 48;
    EXPECT_NO_THROW(parse_config(json, "m/config.json")) << type;
    json[key] = Json::parse(value);
    const std::string said = refusal([&] { parse_config(json, "m/config.json"); });
    EXPECT_TRUE(said.starts_with("m/config.json")) << said;
    EXPECT_NE(said.find(std::string("\"") + key + "\""), std::string::npos) << type << ": " << said;
  }
}

TEST(Config, RefusesWhatGpt2CannotBe) {
  const Json gpt2 = Json::parse(R"({"model_type": "gpt2", "vocab_size": 100, "n_embd": 32, "n_layer": 2, "n_head": 4,
    "n_positions": 64, "n_ctx": 64, "summary_type": "cls_index"})");
  EXPECT_EQ(parse_config(gpt2, "f").intermediate, 128);
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention", "n_experts"}) {
    Json json = gpt2;
    json[key] = true;
    EXPECT_NE(refusal([&] { parse_config(json, "f"); }).find(key), std::string::npos) << key;
  }
}

TEST(Config, TakesKeysThatChangeNothing) {
  Json json = llama();
  for (const char* key : {"torch_dtype", "transformers_version", "_name_or_path", "use_cache", "attention_dropout",
                          "pad_token_id", "architectures", "auto_map", "temperature"})
    json[key] = 1;
  json["unknown_but_null"] = nullptr;
  EXPECT_NO_THROW(parse_config(json, "f"));
}

TEST(Config, ExpertsAreDescribedAndNotRun) {
  Json json = llama();
  json["model_type"] = "mixtral";
  json["num_local_experts"] = 8;
  json["num_experts_per_tok"] = 2;
  const ModelConfig config = parse_config(json, "m/config.json");
  EXPECT_EQ(config.design.experts.experts, 8);
  EXPECT_EQ(config.design.experts.per_token, 2);
  const std::string said = refusal([&] { all_tensors(config); });
  EXPECT_NE(said.find("8 experts"), std::string::npos) << said;
}

TEST(Config, BlocksDifferWhereTheFamilySaysSo) {
  Json json = llama();
  json["num_hidden_layers"] = 12;
  json["head_dim"] = 8;
  const auto config_of = [&](const char* type) {
    json["model_type"] = type;
    return parse_config(json, "f");
  };
  const ModelConfig gemma2 = config_of("gemma2");
  EXPECT_EQ(gemma2.design.block(0).window, 4096);
  EXPECT_EQ(gemma2.design.block(1).window, 0);
  EXPECT_EQ(gemma2.design.attention_cap, 50);
  const ModelConfig gemma3 = config_of("gemma3_text");
  EXPECT_EQ(gemma3.design.rotary_of(4)->theta, 1e4);
  EXPECT_EQ(gemma3.design.rotary_of(5)->theta, 1e6);
  EXPECT_EQ(gemma3.design.block(5).window, 0);
  const ModelConfig smollm = config_of("smollm3");
  EXPECT_EQ(smollm.design.rotary_of(3), nullptr);
  EXPECT_EQ(smollm.design.rotary_of(4)->theta, 2e6);
  json["attn_logit_softcapping"] = nullptr;
  EXPECT_EQ(config_of("gemma2").design.attention_cap, 0);
}

TEST(Shard, EveryPartBelongsToOneRank) {
  for (const std::string& folder : golden_folders()) {
    const ModelConfig config = load_config(folder);
    for (const int ranks : {1, 2, 3, 5, 8, 13}) {
      std::int64_t heads = 0, mlp = 0, vocab = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const ModelShard shard = shard_of(config, rank, ranks);
        EXPECT_EQ(shard.heads.begin, heads);
        EXPECT_EQ(shard.mlp.begin, mlp);
        EXPECT_EQ(shard.vocab.begin, vocab);
        heads = shard.heads.end, mlp = shard.mlp.end, vocab = shard.vocab.end;
        EXPECT_LE(shard.heads.size() * config.head_dim, shard.attention_width);
        EXPECT_LE(shard.mlp.size(), shard.mlp_width);
        for (std::int64_t head = shard.heads.begin; head < shard.heads.end; ++head) {
          EXPECT_GE(head / config.heads_per_kv(), shard.kv_heads.begin);
          EXPECT_LT(head / config.heads_per_kv(), shard.kv_heads.end);
        }
      }
      EXPECT_EQ(heads, config.heads);
      EXPECT_EQ(mlp, config.intermediate);
      EXPECT_EQ(vocab, config.vocab);
    }
  }
}

TEST(Config, CountsParametersAsTransformersDoes) {
  for (const std::string& folder : golden_folders()) {
    const Json golden = load_json(folder + "/golden/golden.json");
    if (!golden.contains("parameters")) continue;  // as transformers counts them
    EXPECT_EQ(num_parameters(load_config(folder)), golden.at("parameters").get<std::int64_t>()) << folder;
  }
}

}  // namespace
}  // namespace weft
