// From messages to the text of a prompt, as a model was trained to read a conversation: the chat template that its
// folder brings, chat_template.jinja or "chat_template" of tokenizer_config.json, or the one in a GGUF file.
#pragma once

#include <ctime>
#include <optional>
#include <span>
#include <string>

#include "weft/io/jinja/template.h"

namespace weft {

struct ChatMessage {
  std::string role;  // system, user, assistant
  std::string content;
};

struct ChatPromptOptions {
  bool answer_begins = true;  // ends with what begins the assistant's answer
  std::time_t now = 0;        // for templates that tell the date; 0: the clock
};

class ChatTemplate {
 public:
  // None where the folder has no template. Throws bad_input where it has one that cannot be read.
  static std::optional<ChatTemplate> load(const std::string& folder);

  // With the text of special tokens in it: Tokenizer::encode_with_special() is for it, and nothing is put before.
  // Throws bad_input where the template refuses the messages.
  std::string prompt(std::span<const ChatMessage> messages, const ChatPromptOptions& options = {}) const;

 private:
  jinja::Template template_;
  jinja::Dict special_;  // bos_token and its like
};

std::string chat_template_text(const std::string& folder);  // empty: there is none

}  // namespace weft
