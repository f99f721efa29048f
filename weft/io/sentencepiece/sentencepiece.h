// Sentencepiece tokenizers from tokenizer.model: normalisation, BPE and unigram search. Sentencepiece's own library is
// not used, because it reads outside its memory for some model files (docs/tokenizers.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/io/text/tokenizer.h"

namespace weft {

struct LoadedSentencePiece {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string bos, eos;  // the texts of these pieces; empty where the model has none
};

// Where the model puts a space before texts: before each stretch between special tokens, or before the first alone, as
// `"legacy": false` of tokenizer_config.json has it.
enum class SpaceBefore { every_stretch, the_first };

// `added` are tokens that tokenizer_config.json adds beyond the model's pieces. Throws bad_input; a list of ranks of
// tiktoken, which has the same file name, is named as such.
LoadedSentencePiece load_sentencepiece(const std::string& path, const std::vector<AddedToken>& added,
                                       SpaceBefore space_before = SpaceBefore::every_stretch);

}  // namespace weft
