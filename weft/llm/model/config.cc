#include "weft/llm/model/config.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/io/model_folder.h"
#include "weft/io/tensor/gguf.h"
#include "weft/llm/gguf/gguf_model.h"
#include "weft/llm/model/families.h"
#include "weft/llm/model/tensor_names.h"

namespace weft {
namespace {

std::vector<int> eos_of(ConfigReader* reader, std::int64_t vocab) {
  const Json* field = reader->find("eos_token_id");
  if (field == nullptr) return {};
  std::vector<std::int64_t> ids;
  if (field->is_array())
    ids = reader->integers("eos_token_id", 0, vocab - 1);
  else
    ids = {reader->integer("eos_token_id", 0, vocab - 1)};
  return {ids.begin(), ids.end()};
}

const Family& family_of(const std::string& type, const std::string& where) {
  const auto all = families();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Family& f) { return f.model_type == type; });
  if (found != all.end()) return *found;
  std::string names;
  for (const Family& family : all) names += fmt::format("{}{}", names.empty() ? "" : ", ", family.model_type);
  if (type == "gemma3")
    bad_input("{}: \"model_type\" is \"gemma3\", which reads pictures too; use a text model (gemma3_text)", where);
  bad_input("{}: \"model_type\" is {}; Weft reads {}", where, weft::quoted(type), names);
}

}  // namespace

ModelConfig parse_config(const Json& json, const std::string& where) {
  ConfigReader reader(json, where);
  const Family& family = family_of(reader.text("model_type"), where);
  ModelConfig config{.file = where, .model_type = std::string(family.model_type)};
  config.vocab = reader.integer("vocab_size", 1, kMostTokens);
  config.eos = eos_of(&reader, config.vocab);
  reader.must_be_absent("quantization_config",
                        "quantised weights in safetensors are not read; use the f32, f16 or bf16 model, or GGUF");
  reader.must_be_absent("pruned_heads", "heads that are left out are not supported; use the whole model");
  reader.must_be("is_encoder_decoder", false, "a model with an encoder is not supported");
  reader.must_be("add_cross_attention", false, "attention to an encoder is not supported");
  family.read(&reader, &config);
  reader.refuse_rest();
  if (config.heads * config.head_dim > kMostColumns)
    bad_input("{}: {} heads of {} columns are {}; at most {} are read", where, config.heads, config.head_dim,
              config.heads * config.head_dim, kMostColumns);
  return config;
}

ModelConfig load_config(const std::string& folder) {
  if (is_gguf(folder)) return gguf_model(folder).config;
  const std::string path = folder + "/config.json";
  check_model_folder(folder);
  return parse_config(load_json(path, {.bytes = std::size_t{1} << 20}), path);
}

std::int64_t num_parameters(const ModelConfig& config) {
  std::int64_t total = 0;
  for (const NamedShape& tensor : all_tensors(config)) {
    std::int64_t size = 1;
    for (const std::int64_t extent : tensor.shape) size *= extent;
    total += size;
  }
  return total;
}

void refuse_experts(const ModelConfig& config) {
  const ExpertDesign& experts = config.design.experts;
  if (experts.experts > 0)
    bad_input("{}: its feed-forward layers are {} experts of which {} serve a token: not run yet; use a dense model",
              config.file, experts.experts, experts.per_token);
}

}  // namespace weft
