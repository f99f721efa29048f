// A conversation: its messages, and the tokens that a model reads of them, by the chat template of its folder.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/io/text/chat_template.h"

namespace weft {

class Tokenizer;

// Throws bad_input where a user's text holds a control token: it could end the user's turn.
void check_user_text(const Tokenizer& tokenizer, const std::string& text);
// Messages up to where the answer begins. Throws bad_input where the template refuses them.
std::vector<int> conversation_tokens(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                     std::span<const ChatMessage> messages);

class Conversation {
 public:
  // The tokenizer outlives it. `system` may be empty: no such message.
  Conversation(ChatTemplate chat, const Tokenizer& tokenizer, std::string system);

  // What a user says, and the tokens of the whole conversation up to where the answer begins. Throws bad_input as those
  // above do, and forgets the text again.
  std::vector<int> ask(const std::string& text);
  void answer(std::string text);  // to the last ask()
  void take_back();               // the last ask(), where no answer comes
  void begin_anew();              // all but the system message goes

  const std::vector<ChatMessage>& messages() const { return messages_; }

 private:
  ChatTemplate chat_;
  const Tokenizer& tokenizer_;
  std::vector<ChatMessage> messages_;
  bool has_system_ = false;
};

}  // namespace weft
