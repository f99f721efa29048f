#include "weft/llm/gguf/gguf_tokenizer_settings.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/gguf_cutting.h"
#include "weft/io/text/chat_template.h"
#include "weft/io/text/tokenizer.h"

namespace weft {
namespace {

constexpr std::size_t kMostTokenizer = std::size_t{64} << 20;
constexpr std::int32_t kNormalToken = 1, kControlToken = 3, kUserToken = 4, kUnusedToken = 5;

struct TokenLists {
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types;

  void set(std::size_t id, const std::string& text, std::int32_t type) {
    for (; tokens.size() <= id; types.push_back(kUnusedToken)) tokens.push_back(fmt::format("[PAD{}]", tokens.size()));
    tokens[id] = text, types[id] = type;
  }
};

TokenLists lists_of(const Json& json) {
  TokenLists lists;
  for (const auto& [text, id] : json["model"]["vocab"].items()) lists.set(id.get<std::size_t>(), text, kNormalToken);
  for (const Json& added : json.value("added_tokens", Json::array()))
    lists.set(added["id"].get<std::size_t>(), added["content"].get<std::string>(),
              added.value("special", false) ? kControlToken : kUserToken);
  for (const Json& merge : json["model"]["merges"])
    lists.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                             : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  return lists;
}

}  // namespace

bool add_tokenizer_settings(const std::string& folder, std::vector<std::pair<std::string, GgufSetting>>* settings) {
  std::error_code error;
  const std::string path = folder + "/tokenizer.json";
  if (!std::filesystem::exists(path, error)) return false;
  const auto tokenizer = Tokenizer::load(folder);  // so the file is checked, and what follows is there
  const std::string text = read_text_file(path, kMostTokenizer);
  const Json json = parse_json(text, path);
  const auto whole = [](int id) { return static_cast<std::uint32_t>(id); };
  if (tokenizer->bos()) settings->push_back({"tokenizer.ggml.bos_token_id", whole(*tokenizer->bos())});
  if (tokenizer->eos()) settings->push_back({"tokenizer.ggml.eos_token_id", whole(*tokenizer->eos())});
  settings->push_back({"tokenizer.ggml.add_bos_token", tokenizer->adds_bos()});
  settings->push_back({"tokenizer.huggingface.json", text});
  if (std::string chat = chat_template_text(folder); !chat.empty())
    settings->push_back({"tokenizer.chat_template", std::move(chat)});
  const std::string pre = gguf_cutting_name(json);
  if (pre.empty()) return false;
  TokenLists lists = lists_of(json);
  settings->push_back({"tokenizer.ggml.model", std::string("gpt2")});
  settings->push_back({"tokenizer.ggml.pre", pre});
  settings->push_back({"tokenizer.ggml.tokens", std::move(lists.tokens)});
  settings->push_back({"tokenizer.ggml.token_type", std::move(lists.types)});
  settings->push_back({"tokenizer.ggml.merges", std::move(lists.merges)});
  return true;
}

}  // namespace weft
