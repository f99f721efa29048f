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

// `added` are tokens that tokenizer_config.json adds beyond the model's pieces. Throws bad_input.
LoadedSentencePiece load_sentencepiece(const std::string& path, const std::vector<AddedToken>& added);

}  // namespace weft
