#include "weft/serve/text_request.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <span>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/text/tokenizer.h"
#include "weft/llm/engine/conversation.h"
#include "weft/llm/engine/prompts.h"

namespace weft {
namespace {

constexpr JsonLimits kBodyLimits{.bytes = std::size_t{8} << 20, .depth = 16, .values = std::size_t{1} << 20};
constexpr std::size_t kMostStops = 16, kLongestStop = 256, kMostMessages = 4096;
constexpr int kMostTokens = 1 << 24;

constexpr std::string_view kSettings[] = {
    "model", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "seed",
    "stop",  "stream",     "stream_options"};
// These change nothing of the text.
constexpr std::string_view kPassedOver[] = {"user",         "metadata",          "store",
                                            "service_tier", "safety_identifier", "prompt_cache_key"};

// These may be there if they ask for nothing.
constexpr std::string_view kNotDone[] = {"n",
                                         "best_of",
                                         "echo",
                                         "suffix",
                                         "logprobs",
                                         "top_logprobs",
                                         "logit_bias",
                                         "response_format",
                                         "tools",
                                         "tool_choice",
                                         "functions",
                                         "function_call",
                                         "modalities",
                                         "audio",
                                         "prediction",
                                         "reasoning_effort",
                                         "web_search_options",
                                         "frequency_penalty",
                                         "tool_calls",
                                         "annotations",
                                         "refusal",
                                         "presence_penalty",
                                         "include_obfuscation",
                                         "parallel_tool_calls"};

// What a client says that asks for nothing beyond plain text: most libraries send all their fields.
bool is_nothing(const std::string& key, const Json& value) {
  if (key == "n" || key == "best_of") return value.is_number() && value == 1;
  if (key == "logprobs") return value == false;  // 0 are those of the text itself
  if (key == "response_format") return value.is_object() && value.contains("type") && value["type"] == "text";
  if (key == "tool_choice" || key == "function_call") return value == "none" || value == "auto";
  if (key == "parallel_tool_calls") return true;  // there are no tools
  if (value.is_number()) return value == 0;
  if (value.is_boolean()) return !value.get<bool>();
  return value.empty() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

bool is_one_of(const std::string& key, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

// `place`: of the request, if not the request itself.
void check_field(const std::string& key, const Json& value, std::string_view place = "") {
  if (value.is_null() || (is_one_of(key, kNotDone) && is_nothing(key, value))) return;
  bad_input("{}{} is not done by this server; leave it out", weft::quoted(key), place);
}

void check_known(const Json& body, std::string_view own) {
  for (const auto& [key, value] : body.items())
    if (key != own && !is_one_of(key, kSettings) && !is_one_of(key, kPassedOver)) check_field(key, value);
}

std::vector<std::string> stops_of(const Json& body) {
  std::vector<std::string> out;
  const Json* given = find_field(body, "stop", "request");
  if (given == nullptr) return out;
  const Json list = given->is_array() ? *given : Json::array({*given});
  if (list.size() > kMostStops) bad_input("\"stop\" has {} texts; give at most {}", list.size(), kMostStops);
  for (const Json& stop : list) {
    if (!stop.is_string() || stop.get_ref<const std::string&>().empty() ||
        stop.get_ref<const std::string&>().size() > kLongestStop)
      bad_input("\"stop\" has {}; give texts of 1 to {} bytes",
                stop.dump(-1, ' ', false, Json::error_handler_t::replace), kLongestStop);
    out.push_back(stop.get<std::string>());
  }
  return out;
}

// A text, or parts that are texts: [{"type": "text", "text": "..."}].
std::string content_of(const Json& message) {
  const Json* content = find_field(message, "content", "message");
  if (content == nullptr) bad_input("a message has no \"content\"; give it a text");
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) bad_input("the \"content\" of a message is neither a text nor a list of parts");
  std::string out;
  for (const Json& part : *content) {
    const std::string type = get_string(part, "type", "message");
    if (type != "text")
      bad_input("a message has a part of type {}; this model reads \"text\" alone", weft::quoted(type));
    out += get_string(part, "text", "message");
  }
  return out;
}

std::vector<ChatMessage> messages_of(const Json& body, const Tokenizer& tokenizer) {
  const Json& list = get_array(body, "messages", "request");
  if (list.empty() || list.size() > kMostMessages)
    bad_input("\"messages\" has {} messages; give 1 to {}", list.size(), kMostMessages);
  std::vector<ChatMessage> out;
  for (const Json& message : list) {
    std::string role = get_string(message, "role", "message");
    if (role == "developer") role = "system";  // its newer name
    if (role != "system" && role != "user" && role != "assistant")
      bad_input("a message has the role {}; use \"system\", \"user\" or \"assistant\"", weft::quoted(role));
    for (const auto& [key, value] : message.items())
      if (key != "role" && key != "content") check_field(key, value, " of a message");
    out.push_back({role, content_of(message)});
    if (role == "user") check_user_text(tokenizer, out.back().content);
  }
  return out;
}

std::uint64_t drawn_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

RequestReader::RequestReader(const ModelConfig& config, const Tokenizer& tokenizer, const ChatTemplate* chat,
                             const RequestDefaults& defaults)
    : config_(config), tokenizer_(tokenizer), chat_(chat), defaults_(defaults) {}

Json RequestReader::parse(std::string_view body) {
  Json json = parse_json(body, "request", kBodyLimits);
  if (!json.is_object()) bad_input("request: the body is no object {{...}}");
  for (auto field = json.begin(); field != json.end();) field = field->is_null() ? json.erase(field) : std::next(field);
  return json;
}

TextRequest RequestReader::completion(const Json& body) const {
  check_known(body, "prompt");
  TextRequest out = settings(body);
  out.prompt = checked(prompt_of(body));
  return out;
}

TextRequest RequestReader::chat(const Json& body) const {
  check_known(body, "messages");
  if (chat_ == nullptr)
    bad_input("this model has no chat template, it was not made for conversations; use /v1/completions");
  TextRequest out = settings(body);
  out.prompt = checked(conversation_tokens(*chat_, tokenizer_, messages_of(body, tokenizer_)));
  out.is_chat = true;
  return out;
}

TextRequest RequestReader::settings(const Json& body) const {
  constexpr std::string_view where = "request";
  TextRequest out{.max_tokens = defaults_.max_tokens, .sampler = defaults_.sampler, .stops = stops_of(body)};
  for (const char* name : {"max_tokens", "max_completion_tokens"})
    if (body.contains(name)) out.max_tokens = get_small(body, name, where, 1, kMostTokens);
  SamplerOptions& sampler = out.sampler;
  if (body.contains("temperature")) sampler.temperature = get_double(body, "temperature", where, 0, 1000);
  if (body.contains("top_p")) sampler.top_p = get_double(body, "top_p", where, 0, 1);
  if (body.contains("top_k")) sampler.top_k = get_small(body, "top_k", where, 0, kMostTokens);
  if (body.contains("seed"))
    sampler.seed = num(get_int(body, "seed", where));
  else if (!defaults_.seed_given)
    sampler.seed = drawn_seed();
  check_sampler(sampler);
  if (body.contains("stream")) out.streams = get_bool(body, "stream", where);
  if (body.contains("stream_options")) {
    const Json& options = get_object(body, "stream_options", where);
    for (const auto& [key, value] : options.items())
      if (key != "include_usage") check_field(key, value, " of \"stream_options\"");
    out.tells_usage = options.contains("include_usage") && get_bool(options, "include_usage", where);
  }
  return out;
}

std::vector<int> RequestReader::prompt_of(const Json& body) const {
  const Json* prompt = find_field(body, "prompt", "request");
  if (prompt == nullptr) bad_input("the request has no \"prompt\"; give a text or a list of tokens");
  Prompts prompts(config_, &tokenizer_);
  if (prompt->is_string()) {
    prompts.add_text(prompt->get<std::string>(), "request");
  } else if (prompt->is_array() && prompt->size() == 1 && prompt->front().is_string()) {
    prompts.add_text(prompt->front().get<std::string>(), "request");
  } else {
    if (!prompt->is_array() || prompt->empty() || !prompt->front().is_number())
      bad_input("\"prompt\" is neither a text nor a list of tokens; of several prompts send each by itself");
    std::vector<int> tokens;
    for (const std::int64_t token : get_ints(body, "prompt", "request", 0, config_.vocab - 1))
      tokens.push_back(static_cast<int>(token));
    return tokens;
  }
  return prompts.tokens()[0];
}

// At least one token of the answer has room behind it.
std::vector<int> RequestReader::checked(std::vector<int> tokens) const {
  if (tokens.empty()) bad_input("the prompt has no token; give at least one");
  if (std::ssize(tokens) >= defaults_.capacity)
    bad_input("the prompt has {} tokens, and there is room for {}, of which the answer needs some; send fewer",
              tokens.size(), defaults_.capacity);
  return tokens;
}

}  // namespace weft
