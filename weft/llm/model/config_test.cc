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
  EXPECT_EQ(old.rope_theta, 10000);
  EXPECT_EQ(old.rope.kind, RopeScaling::Kind::none);
  EXPECT_TRUE(old.tied_head);
  EXPECT_EQ(old.eos, std::vector<int>{0});
  EXPECT_EQ(num_parameters(old), 15'737'088);
  EXPECT_EQ(fresh.rope_theta, 500000);
  EXPECT_EQ(fresh.rope.kind, RopeScaling::Kind::llama3);
  EXPECT_EQ(fresh.heads_per_kv(), 3);
  EXPECT_EQ(load_config(golden_folders()[3]).sliding_window, 16);
  const ModelConfig opt = load_config(golden_folders()[4]);
  EXPECT_EQ(opt.family, ModelFamily::opt);
  EXPECT_TRUE(opt.attention_bias && opt.mlp_bias && opt.tied_head);
}

TEST(Config, LinearScalingDividesEveryRate) {
  Json json = llama();
  const auto plain = rotary_rates(parse_config(json, "f"));
  json["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  const auto scaled = rotary_rates(parse_config(json, "f"));
  ASSERT_EQ(scaled.size(), 4u);
  for (std::size_t i = 0; i < scaled.size(); ++i) EXPECT_DOUBLE_EQ(scaled[i] * 4, plain[i]);
  json["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 4.0}};
  EXPECT_EQ(rotary_rates(parse_config(json, "f")), plain);  // within max_position_embeddings
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
  says(refused(R"({"model_type": "qwen2"})"), "qwen2");
  says(refused(R"({"model_type": null})"), "model_type");
  says(refused(R"({"vocab_size": 0})"), "vocab_size");
  says(refused(R"({"vocab_size": 1e30})"), "vocab_size");
  says(refused(R"({"hidden_size": -1})"), "hidden_size");
  says(refused(R"({"hidden_size": "32"})"), "hidden_size");
  says(refused(R"({"num_hidden_layers": 9999999})"), "num_hidden_layers");
  says(refused(R"({"num_key_value_heads": 3})"), "num_key_value_heads");
  says(refused(R"({"num_attention_heads": 5})"), "head_dim");
  says(refused(R"({"head_dim": 7})"), "head_dim");
  says(refused(R"({"hidden_act": "gelu"})"), "hidden_act");
  says(refused(R"({"eos_token_id": 100})"), "eos_token_id");
  says(refused(R"({"rms_norm_eps": -1})"), "rms_norm_eps");
  says(refused(R"({"rope_scaling": {"type": "yarn", "factor": 2}})"), "yarn");
  says(refused(R"({"rope_scaling": {"type": "linear"}})"), "factor");
  says(refused(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1,
                                    "original_max_position_embeddings": 64}})"),
       "high_freq_factor");
  says(refused(R"({"rope_parameters": {"rope_theta": 0}})"), "rope_theta");
  says(refused(R"({"partial_rotary_factor": 0.5})"), "partial_rotary_factor");
  says(refused(R"({"quantization_config": {"bits": 4}})"), "quantization_config");
  says(refused(R"({"model_type": "opt", "ffn_dim": 64, "word_embed_proj_dim": 16})"), "word_embed_proj_dim");
  says(refused(R"({"model_type": "opt", "ffn_dim": 64, "do_layer_norm_before": false})"), "do_layer_norm_before");
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

TEST(TensorNames, AreThoseOfTheFiles) {
  for (const std::string& folder : golden_folders()) {
    const ModelConfig config = load_config(folder);
    std::int64_t parameters = 0;
    for (const NamedShape& tensor : all_tensors(config)) {
      std::int64_t size = 1;
      for (const std::int64_t extent : tensor.shape) size *= extent;
      parameters += size;
    }
    EXPECT_EQ(parameters, num_parameters(config)) << folder;
  }
}

}  // namespace
}  // namespace weft
