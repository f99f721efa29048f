// One person's side of a chat, line by line: what a line means, and the answer as it comes. On the rank that reads; the
// others follow (chat_ranks.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/llm/chat/chat_ranks.h"
#include "weft/llm/engine/conversation.h"

namespace weft {

class ChatSession {
 public:
  using Show = std::function<void(std::string_view)>;

  // `ranks` outlives it. `show` gets an answer in pieces, the last of them a line end.
  ChatSession(ChatRanks& ranks, Conversation talk, Show show);

  // "/new" forgets the conversation but for its system message, a blank line is passed over, any other is a message,
  // which is answered. False: the line was "/exit". Throws bad_input where a message cannot be, and forgets it again.
  bool take(const std::string& line);

  const std::vector<ChatMessage>& messages() const { return talk_.messages(); }
  int tokens() const { return tokens_; }  // of all answers

 private:
  void answer(const std::vector<int>& tokens);

  ChatRanks& ranks_;
  Conversation talk_;
  Show show_;
  int tokens_ = 0;
};

}  // namespace weft
