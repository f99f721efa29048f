#include "weft/llm/chat/chat_session.h"

#include <utility>

#include "weft/base/error.h"
#include "weft/base/index.h"

namespace weft {

ChatSession::ChatSession(ChatRanks& ranks, Conversation talk, Show show)
    : ranks_(ranks), talk_(std::move(talk)), show_(std::move(show)) {}

bool ChatSession::take(const std::string& line) {
  if (line == "/exit") return false;
  if (line == "/new")
    talk_.begin_anew();
  else if (line.find_first_not_of(" \t\r") != std::string::npos)
    answer(talk_.ask(line));
  return true;
}

void ChatSession::answer(const std::vector<int>& tokens) {
  try {
    GeneratedText made = ranks_.answer(tokens, show_);
    show_("\n");
    tokens_ += int_size(made.tokens);
    talk_.answer(std::move(made.text));
  } catch (const Error&) {
    talk_.take_back();
    throw;
  }
}

}  // namespace weft
