// A tokenizer of tokenizer.json: a normalizer, a pre-tokenizer, and a model that makes tokens of words. What the models
// share is here; each derives from it and knows only words.
#pragma once

#include <string>
#include <utility>

#include "weft/io/text/normalizer.h"
#include "weft/io/text/pre_tokenizer.h"
#include "weft/io/text/tokenizer.h"

namespace weft {

struct TextPipeline {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  LeadingSpace leading_space = LeadingSpace::keep;  // of the decoder
};

class PipelineTokenizer : public Tokenizer {
 protected:
  explicit PipelineTokenizer(TextPipeline pipeline) : pipeline_(std::move(pipeline)) {
    leading_space_ = pipeline_.leading_space;
  }

  // Appends the tokens of a word, which is not empty.
  virtual void encode_word(std::string_view word, std::vector<int>& tokens) const = 0;

  // The pieces of added tokens are their texts; then set_added().
  void add_tokens(std::vector<AddedToken> added);

  // Byte-level models take any bytes; for the others malformed bytes are U+FFFD.
  std::string normalised(std::string_view text) const override;

 private:
  void encode_plain(std::string_view text, bool first, std::vector<int>& tokens) const override;

  TextPipeline pipeline_;
};

}  // namespace weft
