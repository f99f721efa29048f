// Reading tokenizer.json, the form of the tokenizers library, and its ancestor of vocab.json with merges.txt.
#pragma once

#include <memory>
#include <string>

#include "weft/base/json.h"
#include "weft/io/text/tokenizer.h"

namespace weft {

struct LoadedTokenizer {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string template_bos;  // the special token that the file puts before every text; empty where none
};

LoadedTokenizer load_tokenizer_json(const std::string& path);
LoadedTokenizer read_tokenizer_json(const Json& json, const std::string& path);  // `path`: for messages

// `added` are tokens that tokenizer_config.json adds.
LoadedTokenizer load_vocab_and_merges(const std::string& vocab_path, const std::string& merges_path, bool prefix_space,
                                      std::vector<AddedToken> added);

}  // namespace weft
