#include "weft/io/text/chat_template.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/json.h"

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

}  // namespace

std::optional<ChatTemplate> ChatTemplate::load(const std::string& folder) {
  ChatTemplate out;
  std::string text, where = folder + "/chat_template.jinja";
  if (is_file(where)) text = read_text_file(where, kMostTemplateText);
  for (const char* name : {"/tokenizer_config.json", "/special_tokens_map.json"}) {
    const std::string path = folder + name;
    if (!is_file(path)) continue;
    const Json json = load_json(path, kChatLimits);
    if (!json.is_object()) bad_input("{}: this is no object {{...}}", path);
    add_special(json, path, out.special_);
    if (!text.empty()) continue;
    text = template_in(json, path);
    if (!text.empty()) where = path;
  }
  if (text.empty()) return std::nullopt;
  out.template_ = jinja::Template::parse(text, where);
  return out;
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
