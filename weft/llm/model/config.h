// What a model's config.json says, in one form for all families (families.cc). Both spellings of transformers are read
// (torch_dtype, rope_theta and rope_scaling; or dtype and rope_parameters). Nothing in the file is trusted: every value
// has a range, and what Weft cannot compute exactly is refused with the file, the field and a remedy; so is a key that
// nobody has read, unless it is known to change nothing (config_reader.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/json.h"
#include "weft/nn/design.h"

namespace weft {

struct TensorNames;  // tensor_names.h
extern const TensorNames kLlamaNames;

struct ModelConfig {
  std::string file;        // where it was read from, for messages
  std::string model_type;  // the family's name, for files alone: what is computed is in `design`
  Design design;
  const TensorNames* names = &kLlamaNames;  // what the files call its tensors
  std::string root = "model.";              // what their names begin with
  std::string head = "lm_head.weight";      // of the head that is not tied
  std::int64_t vocab = 0, hidden = 0, blocks = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t intermediate = 0;   // columns of the feed-forward layer
  std::int64_t max_positions = 0;  // the longest sequence
  double norm_eps = 1e-5;
  bool tied_head = false;  // the head is the embedding
  std::vector<int> eos;    // tokens that end a text; may be empty

  bool gated() const { return design.gated; }
  std::int64_t heads_per_kv() const { return heads / kv_heads; }
  std::int64_t positions_rows() const { return max_positions + design.learned_positions; }  // of learned positions
};

// The file `folder`/config.json, or the settings of a GGUF file. Throws bad_input.
ModelConfig load_config(const std::string& folder);
// The same from its text; `where` begins every message.
ModelConfig parse_config(const Json& json, const std::string& where);

// Parameters of the whole model, the head counted once where it is tied.
std::int64_t num_parameters(const ModelConfig& config);

// Throws bad_input for a model of experts, which is described but not run.
void refuse_experts(const ModelConfig& config);

}  // namespace weft
