// Byte-level BPE, as GPT-2, Llama 3 and OPT have it: a text is cut into words, the words' bytes are tokens, and
// tokens are merged. Vocabularies write bytes as printable characters of an alphabet that GPT-2 chose.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>

#include "weft/io/text/merges.h"
#include "weft/io/text/pipeline_tokenizer.h"
#include "weft/io/text/vocabulary.h"

namespace weft {

struct ByteLevelOptions {
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges would give
  std::optional<int> unknown;  // for bytes that no token stands for
};

class ByteLevelBpe final : public PipelineTokenizer {
 public:
  ByteLevelBpe(const Vocabulary& vocabulary, Merges merges, std::vector<AddedToken> added,
               const ByteLevelOptions& options, TextPipeline pipeline);

 private:
  void encode_word(std::string_view word, std::vector<int>& tokens) const override;

  ByteLevelOptions options_;
  Merges merges_;
  std::array<int, 256> byte_tokens_;                  // -1 where the vocabulary has none
  std::unordered_map<std::string, int> whole_words_;  // bytes -> token, where merges are ignored for them
};

}  // namespace weft
