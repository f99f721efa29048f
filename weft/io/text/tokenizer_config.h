// tokenizer_config.json and special_tokens_map.json: which tokens begin and end a text, and tokens added to a
// vocabulary after it was made. Both files may be missing.
#pragma once

#include <string>
#include <vector>

#include "weft/io/text/tokenizer.h"

namespace weft {

class TokenizerConfig {
 public:
  static TokenizerConfig load(const std::string& folder);

  // Tokens of "added_tokens_decoder", of ids up to largest_id(vocab_size).
  std::vector<AddedToken> added(int vocab_size) const;
  bool prefix_space() const { return prefix_space_; }
  bool legacy() const { return legacy_; }  // a space goes before every stretch between special tokens

  // Sets bos, eos and adds_bos. What the files say goes before what the tokenizer's own file says: `template_bos`, the
  // token that it puts before texts (empty: none), and for sentencepiece the pieces that are named so. Throws bad_input
  // where bos is to be added and is no token.
  struct OwnWords {
    std::string bos, eos;
    bool adds_bos = false;
  };
  void apply(const OwnWords& own, Tokenizer& tokenizer) const;

 private:
  struct NumberedToken {
    std::string id;
    AddedToken token;
  };

  std::string path_;
  std::string bos_, eos_;
  std::optional<bool> adds_bos_;
  bool prefix_space_ = false, legacy_ = true;
  std::vector<NumberedToken> added_;
};

}  // namespace weft
