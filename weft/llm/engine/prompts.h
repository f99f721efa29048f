// Prompts as tokens, from texts, lists of ids and files, each checked against the model before anything runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/llm/engine/engine.h"

namespace weft {

class Tokenizer;

inline constexpr std::size_t kMostPrompts = 4096;  // at once

class Prompts {
 public:
  // `tokenizer` may be null: then only ids are taken.
  Prompts(const ModelConfig& config, const Tokenizer* tokenizer) : config_(config), tokenizer_(tokenizer) {}

  // Each throws bad_input, naming `where` or the file, where a prompt is empty, leaves no position for a token behind
  // it, or has what the vocabulary has not.
  void add_text(const std::string& text, std::string_view where);  // the tokenizer's bos before it, where it adds one
  void add_ids(std::string_view list, std::string_view where);     // "1,15,7"
  void add_file(const std::string& path);                          // a file that is one prompt
  void add_lines(const std::string& path);                         // JSON Lines, each with a "prompt"

  const std::vector<std::vector<int>>& tokens() const { return tokens_; }
  const std::vector<std::string>& texts() const { return texts_; }  // empty strings where prompts were ids
  std::int64_t num_tokens() const;                                  // of all prompts

  // An engine that has room for every prompt and `max_tokens` behind it, and takes at most `rows` rows at once.
  EngineOptions engine_options(int max_tokens, std::int64_t rows) const;

 private:
  void add(std::vector<int> tokens, std::string text, std::string_view where);

  const ModelConfig& config_;
  const Tokenizer* tokenizer_;
  std::vector<std::vector<int>> tokens_;
  std::vector<std::string> texts_;
};

}  // namespace weft
