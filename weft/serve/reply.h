// What a client gets back, in the words of OpenAI's API: whole, or as events of a stream.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/llm/engine/generate.h"
#include "weft/serve/answer.h"
#include "weft/serve/serve_counts.h"

namespace weft {

// What all parts of one reply say of it.
struct ReplyHead {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
  bool is_chat = false;
};

std::string whole_reply(const ReplyHead& head, std::string_view text, Ending ending, const Usage& usage);

// Server-sent events.
std::string begin_event(const ReplyHead& head);  // whose answer it is; empty where there is no chat
std::string text_event(const ReplyHead& head, std::string_view text);
std::string end_event(const ReplyHead& head, Ending ending);
std::string usage_event(const ReplyHead& head, const Usage& usage);
std::string error_event(std::string_view sentence);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

struct Refusal {
  int status = 400;
  std::string_view type = "invalid_request_error";
  std::string_view code = "bad_input";
};
std::string refusal_reply(const Refusal& refusal, std::string_view sentence);

struct ServedModel {
  std::string name;
  std::int64_t created = 0;
  std::int64_t capacity = 0;  // tokens of a prompt and its answer, but for the last
  std::int64_t vocab = 0;
  bool chat = false;  // whether it has a chat template
};
std::string models_reply(const ServedModel& model);

// In the text format of Prometheus.
std::string metrics_reply(const ServeCounts& counts, std::size_t waiting);

}  // namespace weft
