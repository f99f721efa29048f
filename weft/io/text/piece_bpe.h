// BPE over characters with spaces written as ▁, as the tokenizer.json of Llama 2 and Mistral has it: what sentencepiece
// does, told in merges. Characters outside the vocabulary become their bytes (<0xF0>) or the unknown token.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "weft/io/text/merges.h"
#include "weft/io/text/pipeline_tokenizer.h"
#include "weft/io/text/vocabulary.h"

namespace weft {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // ▁, U+2581

std::string with_spaces(std::string_view text);  // every ▁ as a space

// The byte that a token like <0xF0> stands for.
std::optional<unsigned char> byte_of_piece(std::string_view text);

struct PieceOptions {
  bool ignore_merges = false;
  bool byte_fallback = false;
  bool fuse_unknown = false;  // unknown characters side by side are one token
  std::optional<int> unknown;
};

class PieceBpe final : public PipelineTokenizer {
 public:
  // Throws bad_input where neither all bytes nor an unknown token are there to fall back to.
  PieceBpe(Vocabulary vocabulary, Merges merges, std::vector<AddedToken> added, const PieceOptions& options,
           TextPipeline pipeline, std::string_view where);

 private:
  void encode_word(std::string_view word, std::vector<int>& tokens) const override;

  PieceOptions options_;
  Vocabulary vocabulary_;
  Merges merges_;
  std::array<int, 256> byte_tokens_{};
};

}  // namespace weft
