#include "weft/llm/engine/conversation.h"

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/io/text/tokenizer.h"

namespace weft {

void check_user_text(const Tokenizer& tokenizer, const std::string& text) {
  for (const int token : tokenizer.encode_with_special(text))
    if (tokenizer.is_special(token))
      bad_input("the text has {}, which is a control token of this model; write it in another way",
                weft::quoted(tokenizer.token_text(token)));
}

std::vector<int> conversation_tokens(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                     std::span<const ChatMessage> messages) {
  return tokenizer.encode_with_special(chat.prompt(messages));
}

Conversation::Conversation(ChatTemplate chat, const Tokenizer& tokenizer, std::string system)
    : chat_(std::move(chat)), tokenizer_(tokenizer), has_system_(!system.empty()) {
  if (has_system_) messages_.push_back({"system", std::move(system)});
}

std::vector<int> Conversation::ask(const std::string& text) {
  check_user_text(tokenizer_, text);
  messages_.push_back({"user", text});
  try {
    return conversation_tokens(chat_, tokenizer_, messages_);
  } catch (const Error&) {
    take_back();
    throw;
  }
}

void Conversation::answer(std::string text) { messages_.push_back({"assistant", std::move(text)}); }

void Conversation::take_back() { messages_.pop_back(); }

void Conversation::begin_anew() { messages_.resize(has_system_ ? 1 : 0); }

}  // namespace weft
