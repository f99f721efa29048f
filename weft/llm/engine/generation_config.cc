#include "weft/llm/engine/generation_config.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/model/config.h"

namespace weft {
namespace {

constexpr int kTransformersTopK = 50;  // what transformers takes where "do_sample" stands without "top_k"

bool is_given(const Json& json, const char* key, const std::string& where) {
  const Json* value = find_field(json, key, where);
  return value != nullptr && !value->is_null();
}

}  // namespace

GenerationConfig parse_generation_config(const Json& json, const std::string& where, std::int64_t vocab) {
  GenerationConfig out;
  if (is_given(json, "eos_token_id", where)) {
    out.eos.emplace();
    if (json["eos_token_id"].is_array())
      for (const std::int64_t id : get_ints(json, "eos_token_id", where, 0, vocab - 1))
        out.eos->push_back(static_cast<int>(id));
    else
      out.eos->push_back(get_small(json, "eos_token_id", where, 0, vocab - 1));
  }
  if (!is_given(json, "do_sample", where) || !get_bool(json, "do_sample", where)) return out;
  SamplerOptions& sampler = out.sampler.emplace();
  sampler.temperature = 1;
  sampler.top_k = kTransformersTopK;
  if (is_given(json, "temperature", where)) sampler.temperature = get_double(json, "temperature", where, 0, 1000);
  if (is_given(json, "top_k", where)) sampler.top_k = get_small(json, "top_k", where, 0, 1 << 24);
  if (is_given(json, "top_p", where)) sampler.top_p = get_double(json, "top_p", where, 0, 1);
  return out;
}

GenerationConfig load_generation_config(const std::string& folder, std::int64_t vocab) {
  const std::string path = folder + "/generation_config.json";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  return parse_generation_config(load_json(path, {.bytes = std::size_t{1} << 20, .depth = 32}), path, vocab);
}

void apply_generation_config(const GenerationConfig& own, const ModelConfig& model, const Tokenizer* tokenizer,
                             bool sampler_given, GenerateOptions* options) {
  if (own.sampler && !sampler_given) {
    const std::uint64_t seed = options->sampler.seed;
    options->sampler = *own.sampler;
    options->sampler.seed = seed;
  }
  check_sampler(options->sampler);
  options->eos = own.eos.value_or(model.eos);
  if (tokenizer != nullptr && tokenizer->eos()) options->eos.push_back(*tokenizer->eos());
}

}  // namespace weft
