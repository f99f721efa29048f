#include "weft/serve/reply.h"

#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/base/json_out.h"

namespace weft {
namespace {

using Out = nlohmann::ordered_json;

std::string_view finish_reason(Ending ending) { return ending == Ending::length ? "length" : "stop"; }

Out usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

// `part`: a chunk of a stream.
Out head_json(const ReplyHead& head, bool part) {
  const char* chat = part ? "chat.completion.chunk" : "chat.completion";
  return {{"id", head.id},
          {"object", head.is_chat ? chat : "text_completion"},
          {"created", head.created},
          {"model", head.model}};
}

// A list of one choice.
Out choices(Out what, Out reason) {
  Out choice{{"index", 0}};
  choice.update(what);
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = std::move(reason);
  return Out::array({std::move(choice)});
}

std::string event(const Out& json) { return "data: " + json_line(json) + "\n"; }

std::string chunk(const ReplyHead& head, Out what, Out reason = nullptr) {
  Out out = head_json(head, true);
  out["choices"] = choices(std::move(what), std::move(reason));
  return event(out);
}

Out error_json(std::string_view sentence, std::string_view type, std::string_view code) {
  return {{"error", {{"message", sentence}, {"type", type}, {"param", nullptr}, {"code", code}}}};
}

}  // namespace

std::string whole_reply(const ReplyHead& head, std::string_view text, Ending ending, const Usage& usage) {
  Out out = head_json(head, false);
  Out said{{"text", text}};
  if (head.is_chat) said = {{"message", {{"role", "assistant"}, {"content", text}}}};
  out["choices"] = choices(std::move(said), finish_reason(ending));
  out["usage"] = usage_json(usage);
  return json_line(out);
}

std::string begin_event(const ReplyHead& head) {
  if (!head.is_chat) return {};
  return chunk(head, {{"delta", {{"role", "assistant"}, {"content", ""}}}});
}

std::string text_event(const ReplyHead& head, std::string_view text) {
  return head.is_chat ? chunk(head, {{"delta", {{"content", text}}}}) : chunk(head, {{"text", text}});
}

std::string end_event(const ReplyHead& head, Ending ending) {
  Out nothing{{"text", ""}};
  if (head.is_chat) nothing = {{"delta", Out::object()}};
  return chunk(head, std::move(nothing), finish_reason(ending));
}

std::string usage_event(const ReplyHead& head, const Usage& usage) {
  Out out = head_json(head, true);
  out["choices"] = Out::array();
  out["usage"] = usage_json(usage);
  return event(out);
}

std::string error_event(std::string_view sentence) { return event(error_json(sentence, "server_error", "failed")); }

std::string refusal_reply(const Refusal& refusal, std::string_view sentence) {
  return json_line(error_json(sentence, refusal.type, refusal.code));
}

std::string models_reply(const ServedModel& model) {
  return json_line(Out{{"object", "list"},
                       {"data", Out::array({{{"id", model.name},
                                             {"object", "model"},
                                             {"created", model.created},
                                             {"owned_by", "weft"},
                                             {"max_model_len", model.capacity},
                                             {"vocab_size", model.vocab},
                                             {"chat", model.chat}}})}});
}

std::string metrics_reply(const ServeCounts& counts, std::size_t waiting) {
  std::string out;
  const auto add = [&](std::string_view kind, std::string_view name, std::string_view help, std::int64_t value) {
    out += fmt::format("# HELP weft_{0} {1}\n# TYPE weft_{0} {2}\nweft_{0} {3}\n", name, help, kind, value);
  };
  add("gauge", "running", "Texts that are being made.", counts.running);
  add("gauge", "waiting", "Requests that wait for a sequence.", static_cast<std::int64_t>(waiting));
  add("counter", "ended_total", "Texts that were made.", counts.ended);
  add("counter", "given_up_total", "Texts whose client went away.", counts.given_up);
  add("counter", "refused_total", "Requests that were refused.", counts.refused);
  add("counter", "prompt_tokens_total", "Tokens of prompts.", counts.prompt_tokens);
  add("counter", "cached_tokens_total", "Tokens of prompts that a sequence had already.", counts.cached_tokens);
  add("counter", "completion_tokens_total", "Tokens that were made.", counts.completion_tokens);
  add("counter", "passes_total", "Passes of the model.", counts.passes);
  add("counter", "rows_total", "Rows of all passes.", counts.rows);
  return out;
}

}  // namespace weft
