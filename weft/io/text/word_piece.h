// WordPiece of tokenizer.json, as BERT has it: a word is its longest beginning that is in the vocabulary, then the
// longest that go on ("##ing"); a word that cannot be made so is the unknown token as a whole.
#pragma once

#include <string>

#include "weft/io/text/pipeline_tokenizer.h"
#include "weft/io/text/vocabulary.h"

namespace weft {

struct WordPieceOptions {
  std::string prefix = "##";  // of pieces that go on
  std::size_t longest = 100;  // characters of a word; longer ones are unknown
  int unknown = 0;
  bool cleanup = false;  // of the decoder: no space before ".", "n't" and their like
};

// What the "model" of a tokenizer.json says beside its vocabulary. Throws bad_input.
WordPieceOptions read_word_piece(const Json& model, const Vocabulary& vocabulary, const std::string& where);

class WordPiece final : public PipelineTokenizer {
 public:
  WordPiece(Vocabulary vocabulary, std::vector<AddedToken> added, WordPieceOptions options, TextPipeline pipeline);

 private:
  void encode_word(std::string_view word, std::vector<int>& tokens) const override;
  std::string decoded(const std::string& text) const;

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  std::size_t longest_ = 0;  // bytes of the longest piece
};

}  // namespace weft
