// BPE over characters with spaces written as ▁, as the tokenizer.json of Llama 2 and Mistral has it: what sentencepiece
// does, told in merges. Characters outside the vocabulary become their bytes (<0xF0>) or the unknown token.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "weft/io/text/merges.h"
#include "weft/io/text/tokenizer.h"
#include "weft/io/text/vocabulary.h"

namespace weft {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // ▁, U+2581

std::string with_spaces(std::string_view text);  // every ▁ as a space

// The byte that a token like <0xF0> stands for.
std::optional<unsigned char> byte_of_piece(std::string_view text);

// Where a ▁ is put before a text.
enum class SpacePrefix {
  never,
  always,        // also before a text that begins with a space
  where_absent,  // before one that begins with none
};

struct PieceOptions {
  SpacePrefix prefix = SpacePrefix::never;
  bool prefix_first_only = false;  // not after an added token
  bool split = false;              // words are merged apart, each beginning with its ▁
  bool ignore_merges = false;
  bool byte_fallback = false;
  bool fuse_unknown = false;  // unknown characters side by side are one token
  std::optional<int> unknown;
  LeadingSpace leading_space = LeadingSpace::keep;
};

class PieceBpe final : public Tokenizer {
 public:
  // Throws bad_input where neither all bytes nor an unknown token are there to fall back to.
  PieceBpe(Vocabulary vocabulary, Merges merges, std::vector<AddedToken> added, const PieceOptions& options,
           std::string_view where);

 private:
  void encode_plain(std::string_view text, bool first, std::vector<int>& tokens) const override;
  void encode_word(std::string_view word, std::vector<int>& tokens) const;
  std::string marked(std::string_view text, bool first) const;

  PieceOptions options_;
  Vocabulary vocabulary_;
  Merges merges_;
  std::array<int, 256> byte_tokens_{};
};

}  // namespace weft
