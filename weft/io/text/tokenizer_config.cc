#include "weft/io/text/tokenizer_config.h"

#include <charconv>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/text/vocabulary.h"

namespace weft {
namespace {

const JsonLimits kConfigLimits{.bytes = std::size_t{64} << 20, .depth = 32};

// "<s>", {"content": "<s>", ...} or null.
std::string token_text(const Json& json, const char* key, const std::string& path) {
  const Json* value = find_field(json, key, path);
  if (!value || value->is_null()) return "";
  if (value->is_object()) return get_string(*value, "content", fmt::format("{}: \"{}\"", path, key));
  return get_string(json, key, path);
}

std::optional<bool> optional_flag(const Json& json, const char* key, const std::string& path) {
  const Json* value = find_field(json, key, path);
  if (!value || value->is_null()) return std::nullopt;
  return get_bool(json, key, path);
}

}  // namespace

TokenizerConfig TokenizerConfig::load(const std::string& folder) {
  TokenizerConfig result;
  result.path_ = folder + "/tokenizer_config.json";
  std::error_code error;
  if (std::filesystem::exists(result.path_, error)) {
    const Json json = load_json(result.path_, kConfigLimits);
    result.bos_ = token_text(json, "bos_token", result.path_);
    result.eos_ = token_text(json, "eos_token", result.path_);
    result.adds_bos_ = optional_flag(json, "add_bos_token", result.path_);
    result.prefix_space_ = optional_flag(json, "add_prefix_space", result.path_).value_or(false);
    result.legacy_ = optional_flag(json, "legacy", result.path_).value_or(true);
    const std::string where = result.path_ + ": \"added_tokens_decoder\"";
    const Json* decoder = find_field(json, "added_tokens_decoder", result.path_);
    if (decoder && !decoder->is_null())
      for (const auto& [id, token] : get_object(json, "added_tokens_decoder", result.path_).items())
        result.added_.push_back({id, read_added_token(token, 0, where)});
  }
  const std::string map = folder + "/special_tokens_map.json";
  if (std::filesystem::exists(map, error)) {
    const Json json = load_json(map, kConfigLimits);
    if (result.bos_.empty()) result.bos_ = token_text(json, "bos_token", map);
    if (result.eos_.empty()) result.eos_ = token_text(json, "eos_token", map);
  }
  return result;
}

std::vector<AddedToken> TokenizerConfig::added(int vocab_size) const {
  std::vector<AddedToken> result;
  const int most = largest_id(num(vocab_size) + added_.size());
  for (const NumberedToken& numbered : added_) {
    int id = -1;
    const char* end = numbered.id.data() + numbered.id.size();
    if (const auto [stop, error] = std::from_chars(numbered.id.data(), end, id);
        error != std::errc() || stop != end || id < 0 || id > most)
      bad_input("{}: \"added_tokens_decoder\" has a token of id {}; give a whole number from 0 to {}", path_,
                weft::quoted(numbered.id), most);
    result.push_back(numbered.token);
    result.back().id = id;
  }
  return result;
}

void TokenizerConfig::apply(const OwnWords& own, Tokenizer& tokenizer) const {
  const std::string bos = bos_.empty() ? own.bos : bos_, eos = eos_.empty() ? own.eos : eos_;
  if (!bos.empty()) tokenizer.bos_ = tokenizer.find_token(bos);
  if (!eos.empty()) tokenizer.eos_ = tokenizer.find_token(eos);
  tokenizer.adds_bos_ = adds_bos_.value_or(own.adds_bos);
  if (tokenizer.adds_bos_ && !tokenizer.bos_)
    bad_input("{}: a token {} is to begin every text, but the vocabulary has none; name it in \"bos_token\"", path_,
              weft::quoted(bos));
}

}  // namespace weft
