// What a model's config.json says, in one form for all families: Llama 2 and 3, Mistral, OPT. Both spellings of
// transformers are read (torch_dtype, rope_theta and rope_scaling; or dtype and rope_parameters). Nothing in the file
// is trusted: every value has a range, and what Weft cannot compute exactly is refused with the file, the field and a
// remedy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/choices.h"
#include "weft/base/json.h"

namespace weft {

enum class ModelFamily {
  llama,  // RMSNorm, rotary positions, a gated feed-forward layer; Mistral too
  opt,    // LayerNorm, learned positions, a plain feed-forward layer
};

// How the rates of rotary positions are changed for sequences longer than those first trained on.
struct RopeScaling {
  enum class Kind {
    none,
    linear,   // all rates divided by factor
    dynamic,  // up to max_positions the rates are unchanged, and longer sequences are refused: so this equals none
    llama3,   // slow rates divided by factor, fast ones kept, those between blended
  };
  Kind kind = Kind::none;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double original_positions = 0;                     // llama3
};

struct ModelConfig {
  std::string file;  // where it was read from, for messages
  ModelFamily family = ModelFamily::llama;
  std::int64_t vocab = 0, hidden = 0, blocks = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t intermediate = 0;    // columns of the feed-forward layer
  std::int64_t max_positions = 0;   // the longest sequence
  std::int64_t sliding_window = 0;  // a query sees this many positions, its own included; 0: all
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope;
  Activation activation = Activation::silu;
  bool tied_head = false;       // the head is the embedding
  bool attention_bias = false;  // of q, k, v and the output projection
  bool mlp_bias = false;
  std::vector<int> eos;  // tokens that end a text; may be empty

  bool gated() const { return family == ModelFamily::llama; }
  std::int64_t heads_per_kv() const { return heads / kv_heads; }
};

// The file `folder`/config.json. Throws bad_input.
ModelConfig load_config(const std::string& folder);
// The same from its text; `where` begins every message.
ModelConfig parse_config(const Json& json, const std::string& where);

// Angle a position of rotary pair i (of head_dim / 2), scaling included. Empty for families without.
std::vector<double> rotary_rates(const ModelConfig& config);

// Parameters of the whole model, the head counted once where it is tied.
std::int64_t num_parameters(const ModelConfig& config);

}  // namespace weft
