// generation_config.json: the tokens that end a model's texts, and how its makers sample. The file may be missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/json.h"
#include "weft/llm/engine/generate.h"
#include "weft/llm/engine/sampler.h"

namespace weft {

struct GenerationConfig {
  std::optional<std::vector<int>> eos;    // where it names them, they go before config.json's
  std::optional<SamplerOptions> sampler;  // where it says "do_sample"; without a seed of its own
};

// `vocab` bounds the tokens. Throws bad_input, naming the file and the field.
GenerationConfig load_generation_config(const std::string& folder, std::int64_t vocab);
GenerationConfig parse_generation_config(const Json& json, const std::string& where, std::int64_t vocab);

// Sets the tokens that end a text, and the sampler where the folder has one and `sampler_given` is false. The seed
// stays. `tokenizer` may be null. Throws bad_input where the folder's sampler cannot be.
void apply_generation_config(const GenerationConfig& own, const ModelConfig& model, const Tokenizer* tokenizer,
                             bool sampler_given, GenerateOptions* options);

}  // namespace weft
