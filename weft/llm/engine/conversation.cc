#include "weft/llm/engine/conversation.h"

#include "weft/base/error.h"
#include "weft/base/json.h"
#include "weft/io/text/tokenizer.h"

namespace weft {

Conversation::Conversation(ChatTemplate chat, const Tokenizer& tokenizer, std::string system)
    : chat_(std::move(chat)), tokenizer_(tokenizer), has_system_(!system.empty()) {
  if (has_system_) messages_.push_back({"system", std::move(system)});
}

std::vector<int> Conversation::ask(const std::string& text) {
  for (const int token : tokenizer_.encode_with_special(text))
    if (tokenizer_.is_special(token))
      bad_input("the text has {}, which is a control token of this model; write it in another way",
                weft::quoted(tokenizer_.token_text(token)));
  messages_.push_back({"user", text});
  try {
    return tokenizer_.encode_with_special(chat_.prompt(messages_));
  } catch (const Error&) {
    take_back();
    throw;
  }
}

void Conversation::answer(std::string text) { messages_.push_back({"assistant", std::move(text)}); }

void Conversation::take_back() { messages_.pop_back(); }

void Conversation::begin_anew() { messages_.resize(has_system_ ? 1 : 0); }

}  // namespace weft
