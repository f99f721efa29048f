// A conversation's answers over all ranks of a world. Rank 0 has the conversation (conversation.h) and answers; the
// others follow. Keys and values stay from turn to turn: of the next prompt only what is new goes through the model.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "weft/llm/engine/generate.h"
#include "weft/llm/engine/token_relay.h"

namespace weft {

class ChatRanks {
 public:
  // Collective. Engine and tokenizer outlive it; the engine's sequence 0 is its own. Turn n adds n to the seed.
  ChatRanks(World& world, Engine& engine, const Tokenizer& tokenizer, GenerateOptions options);

  // Rank 0: the answer to the tokens of the whole conversation; text as it comes. Throws bad_input, and nobody else
  // hears of it, where they leave no room for an answer.
  GeneratedText answer(const std::vector<int>& tokens, const std::function<void(std::string_view)>& on_text = {});
  void idle() { relay_.idle(); }  // while nobody asks: at least every few seconds
  void end() { relay_.end(); }

  void follow();  // the others, until rank 0 ends

  std::int64_t turns() const { return turns_; }
  std::int64_t tokens_kept() const { return tokens_kept_; }  // of prompts, that did not go through the model again

 private:
  GeneratedText turn(const std::vector<int>& tokens, GenerateOptions options);

  Engine& engine_;
  const Tokenizer& tokenizer_;
  GenerateOptions options_;
  TokenRelay relay_;
  std::vector<int> cached_;  // what sequence 0 of the engine has
  std::int64_t turns_ = 0, tokens_kept_ = 0;
};

}  // namespace weft
