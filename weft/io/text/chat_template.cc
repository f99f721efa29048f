#include "weft/io/text/chat_template.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/base/json.h"
#include "weft/io/tensor/gguf.h"

namespace weft {
namespace {

const JsonLimits kChatLimits{.bytes = std::size_t{64} << 20, .depth = 32};
constexpr std::size_t kMostTemplateText = std::size_t{1} << 20;

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// A text, or of several named ones the default.
std::string template_in(const Json& json, const std::string& path) {
  const Json* value = find_field(json, "chat_template", path);
  if (value == nullptr || value->is_null()) return "";
  if (!value->is_array()) return get_string(json, "chat_template", path);
  for (const Json& named : *value)
    if (get_string(named, "name", path + ": \"chat_template\"") == "default")
      return get_string(named, "template", path + ": \"chat_template\"");
  bad_input("{}: \"chat_template\" has no template named \"default\"; add one", path);
}

void add_special(const Json& json, const std::string& path, jinja::Dict& special) {
  for (const auto& [key, value] : json.items()) {
    if (!key.ends_with("_token") || special.find(key) != nullptr) continue;
    if (value.is_string()) special.set(key, jinja::Value::of(value.get<std::string>()));
    if (value.is_object())
      special.set(key, jinja::Value::of(get_string(value, "content", fmt::format("{}: \"{}\"", path, key))));
  }
}

// A GGUF file has the template and the ids of the tokens that it may name.
std::string template_of(const GgufFile& file, jinja::Dict& special) {
  if (!file.has("tokenizer.chat_template")) return "";
  const auto texts =
      file.has("tokenizer.ggml.tokens") ? file.get_texts("tokenizer.ggml.tokens") : std::vector<std::string_view>();
  for (const auto& [name, key] :
       {std::pair{"bos_token", "tokenizer.ggml.bos_token_id"}, std::pair{"eos_token", "tokenizer.ggml.eos_token_id"},
        std::pair{"unk_token", "tokenizer.ggml.unknown_token_id"},
        std::pair{"pad_token", "tokenizer.ggml.padding_token_id"}})
    if (file.has(key) && !texts.empty())
      special.set(name, jinja::Value::of(std::string(texts[at(file.get_int(key, 0, std::ssize(texts) - 1))])));
  return file.get_text("tokenizer.chat_template");
}

struct FoundTemplate {
  std::string text, where;  // no text: there is none
};

FoundTemplate find_template(const std::string& folder, jinja::Dict& special) {
  if (is_gguf(folder)) return {template_of(GgufFile::open(folder), special), folder + ", tokenizer.chat_template"};
  FoundTemplate found{"", folder + "/chat_template.jinja"};
  if (is_file(found.where)) found.text = read_text_file(found.where, kMostTemplateText);
  for (const char* name : {"/tokenizer_config.json", "/special_tokens_map.json"}) {
    const std::string path = folder + name;
    if (!is_file(path)) continue;
    const Json json = load_json(path, kChatLimits);
    if (!json.is_object()) bad_input("{}: this is no object {{...}}", path);
    add_special(json, path, special);
    if (!found.text.empty()) continue;
    found.text = template_in(json, path);
    if (!found.text.empty()) found.where = path;
  }
  return found;
}

}  // namespace

std::optional<ChatTemplate> ChatTemplate::load(const std::string& folder) {
  ChatTemplate out;
  const FoundTemplate found = find_template(folder, out.special_);
  if (found.text.empty()) return std::nullopt;
  out.template_ = jinja::Template::parse(found.text, found.where);
  return out;
}

std::string chat_template_text(const std::string& folder) {
  jinja::Dict special;
  return find_template(folder, special).text;
}

std::string ChatTemplate::prompt(std::span<const ChatMessage> messages, const ChatPromptOptions& options) const {
  using jinja::Value;
  jinja::Dict variables = special_;
  jinja::List list;
  for (const ChatMessage& message : messages) {
    jinja::Dict one;
    one.set("role", Value::of(message.role));
    one.set("content", Value::of(message.content));
    list.push_back(Value::of(std::move(one)));
  }
  variables.set("messages", Value::of(std::move(list)));
  variables.set("add_generation_prompt", Value::of(options.answer_begins));
  variables.set("tools", Value::none());
  variables.set("documents", Value::none());
  return template_.render(variables, {.now = options.now});
}

}  // namespace weft
