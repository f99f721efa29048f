// Unigram of tokenizer.json: of all ways to cut a word into pieces the one whose scores, log-probabilities, have the
// largest sum. What sentencepiece_search.h does for tokenizer.model, in the f64 of the library that reads this file.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/io/text/piece_trie.h"
#include "weft/io/text/pipeline_tokenizer.h"

namespace weft {

struct UnigramPieces {
  std::vector<std::string> texts;  // by id
  std::vector<double> scores;
  std::optional<int> unknown;
  bool byte_fallback = false;
};

// The "model" of a tokenizer.json. Throws bad_input.
UnigramPieces read_unigram(const Json& model, const std::string& where);

class Unigram final : public PipelineTokenizer {
 public:
  Unigram(UnigramPieces pieces, std::vector<AddedToken> added, TextPipeline pipeline);

 private:
  void encode_word(std::string_view word, std::vector<int>& tokens) const override;
  std::vector<std::string_view> cut(std::string_view word) const;  // unknown stretches are joined
  void add_token(std::string_view text, std::vector<int>& tokens) const;

  UnigramPieces own_;
  double unknown_score_ = 0;
  PieceTrie trie_;
  std::unordered_map<std::string, int> ids_;
  std::array<int, 256> byte_tokens_{};
};

}  // namespace weft
