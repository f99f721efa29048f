// What a GGUF file says of a model, in one form between the two that exist: read from a file's settings it becomes the
// config.json that such a model would have; taken from a model's config it becomes settings. So what is written is what
// would be read, and a model of which a file cannot say all is found out before anything is written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/json.h"
#include "weft/io/tensor/write_gguf.h"
#include "weft/llm/gguf/gguf_files.h"
#include "weft/llm/model/config.h"

namespace weft {

struct GgufFacts;

// One row per architecture of llama.cpp.
struct GgufFamily {
  std::string_view architecture, model_type;  // general.architecture; config.json's word
  bool fused = false;                         // q, k and v are one tensor, and gate and up where there is a gate
  bool paired = false;                        // the two rows of q and k that a rotary position turns lie side by side
  bool layer_norm = false;                    // which names the setting of its epsilon
  void (*tell)(const GgufFacts& facts, Json* config) = nullptr;  // the keys of config.json that are its own
};
const GgufFamily& gguf_family(std::string_view architecture, const std::string& where);  // bad_input: none of that name
const GgufFamily* gguf_family_of(const ModelConfig& config);                             // null: llama.cpp has none

// Zero, empty or "none" where the file does not say.
struct GgufFacts {
  const GgufFamily* family = nullptr;
  std::int64_t vocab = 0, context = 0, hidden = 0, blocks = 0, intermediate = 0, heads = 0, kv_heads = 0, head_dim = 0;
  double eps = 0;
  bool tied = false, parallel = true;
  bool attention_bias = false, mlp_bias = false;
  std::int64_t turned = 0;  // columns of a head that rotary positions turn
  double theta = 10000, theta_in_window = 10000;
  std::string scaling = "none";  // of rotary positions: none, linear, yarn, longrope
  double factor = 1, magnitude = 0, beta_fast = 0, beta_slow = 0;
  std::int64_t original_context = 0;
  std::vector<float> divisors, long_divisors;  // of rates; the second for long texts, where they differ
  std::int64_t window = 0;
  std::vector<bool> windowed;  // (blocks)
  double attention_cap = 0, logit_cap = 0;
  double embedding_scale = 0, residual_scale = 0, attention_scale = 0, logit_divisor = 0;
  std::vector<int> ends;  // tokens
};

GgufFacts read_gguf_facts(const GgufFiles& files);      // bad_input: a setting that Weft does not compute with
GgufFacts gguf_facts_of(const ModelConfig& config);     // of a model that has a family
Json gguf_config_json(const GgufFacts& facts);          // what parse_config reads
void set_gguf_layout(bool fused, ModelConfig* config);  // names of tensors; norms have their one
std::vector<std::pair<std::string, GgufSetting>> gguf_settings(const GgufFacts& facts);

// Bad_input where llama.cpp's files cannot say all of a model's description.
void check_gguf_says_all(const ModelConfig& config, const GgufFacts& facts);

}  // namespace weft
