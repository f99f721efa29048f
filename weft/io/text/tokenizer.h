// Text to tokens and back, from the files that models carry. Three kinds, told apart by the files in a folder:
//   tokenizer.json          stages for normalising and splitting, then BPE over bytes (GPT-2, Llama 3, Qwen) or over ▁
//                           and characters (Llama 2, Gemma), unigram, or WordPiece
//   vocab.json, merges.txt  byte-level BPE with GPT-2's splitting, as older folders have it
//   tokenizer.model         sentencepiece, BPE or unigram
// tokenizer_config.json says which tokens begin and end a text. What these files can ask for and is not done here is
// refused at loading with a sentence that names the file and the field: no text is ever split by the wrong rule.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/index.h"

namespace weft {

// What the start of a text loses when it is decoded: the space that encoding put there.
enum class LeadingSpace { keep, drop_one, drop_all };

// A token that stands for its text as a whole, wherever that occurs.
struct AddedToken {
  int id = 0;
  std::string text;
  bool special = false;  // control: begins and ends texts, turns of a chat
  bool strip_left = false, strip_right = false;
  bool single_word = false;  // only where what stands before and behind it is no part of a word
  bool normalized =
      false;  // looked for in the text as normalised, which its own text is too; else in the text as it is
};

// Finds the tokens of a list in a text: the leftmost, of those the longest.
class AddedTokens {
 public:
  struct Part {
    std::string_view text;
    const AddedToken* token;  // null: plain text, in which no token is
  };

  // `texts[i]` is what stands for token i in a text.
  void set(std::vector<AddedToken> tokens, std::vector<std::string> texts);
  // The whole text, in order. Special tokens are plain text unless `with_special`.
  std::vector<Part> parts_of(std::string_view text, bool with_special) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  struct Found {
    const AddedToken* token = nullptr;
    std::size_t length = 0;
  };
  Found longest_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;
  std::vector<std::string> texts_;
  std::array<std::vector<std::size_t>, 256> by_first_byte_;  // longest text first
};

class Tokenizer {
 public:
  static std::unique_ptr<Tokenizer> load(const std::string& folder);  // throws bad_input
  static bool is_in(const std::string& folder);                       // whether load() would find files
  virtual ~Tokenizer() = default;

  // Any bytes. Nothing is put before them, and text that looks like a special token is ordinary text: what a user types
  // cannot end a turn. Invalid UTF-8 is kept byte for byte by byte-level BPE; sentencepiece has U+FFFD for each such
  // byte.
  std::vector<int> encode(std::string_view text) const;

  // The same, but the text of special tokens ("<|endoftext|>") gives their ids: for prompts written with them.
  std::vector<int> encode_with_special(std::string_view text) const;

  // UTF-8 always: bytes that are none become U+FFFD. Special tokens of tokenizer.json give their text; the control
  // pieces of tokenizer.model give nothing. Throws bad_input on an id outside the vocabulary.
  std::string decode(std::span<const int> tokens) const;

  // The bytes that one token adds to a text: all of a character, or a part. Throws as decode() does.
  const std::string& piece_bytes(int token) const;

  // The text of one token alone, bytes that are no character as U+FFFD; of a control piece its name.
  std::string token_text(int token) const;

  int vocab_size() const { return int_size(pieces_); }  // largest id + 1
  std::optional<int> bos() const { return bos_; }
  std::optional<int> eos() const { return eos_; }
  bool adds_bos() const { return adds_bos_; }                  // whether the model was trained with bos before a text
  bool is_special(int token) const;                            // a control token
  std::optional<int> find_token(std::string_view text) const;  // an added or special token of exactly this text

 protected:
  // The text as the vocabulary has it; added tokens that are `normalized` are looked for in this.
  virtual std::string normalised(std::string_view text) const { return std::string(text); }

  // Appends the tokens of `text`, which is normalised, not empty and in which no added token is left. `first`: nothing
  // came before it.
  virtual void encode_plain(std::string_view text, bool first, std::vector<int>& tokens) const = 0;

  // After pieces_, which has their ids, and when normalised() can be called; no text is empty.
  void set_added(std::vector<AddedToken> added);

  std::vector<std::string> pieces_;  // the bytes that each id adds to a text
  LeadingSpace leading_space_ = LeadingSpace::keep;
  bool special_keeps_space_ = false;  // a special token at the start of a text loses no leading space

 private:
  friend class TextStream;
  friend class TokenizerConfig;  // sets what follows

  std::vector<int> encode_parts(std::string_view text, bool with_special) const;
  void check(int token) const;

  AddedTokens added_, normalized_added_;  // looked for before, and after normalising
  std::vector<bool> special_;
  std::optional<int> bos_, eos_;
  bool adds_bos_ = false;
};

// Decodes token by token: the strings that add() and finish() give out, joined, are decode() of all tokens, or what
// that has more than decode() of those `before`. A character comes out when its last byte is known, never in halves. A
// token beyond the vocabulary adds nothing: models may have rows for more tokens. The tokenizer must outlive it.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer, std::span<const int> before = {}) : tokenizer_(&tokenizer) {
    for (const int token : before) add(token);
  }

  std::string add(int token);
  std::string finish();  // what is still held back; then begins anew

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;   // the beginning of a character
  bool at_start_ = true;  // nothing given out yet, so leading spaces may still go
};

}  // namespace weft
