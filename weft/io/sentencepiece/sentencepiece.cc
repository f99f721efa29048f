#include "weft/io/sentencepiece/sentencepiece.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/mapped_file.h"
#include "weft/io/sentencepiece/sentencepiece_model.h"
#include "weft/io/sentencepiece/sentencepiece_search.h"
#include "weft/io/text/piece_bpe.h"
#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(SentencePieceModel model, const std::vector<AddedToken>& added, SpaceBefore space_before)
      : model_(std::move(model)), index_(model_), space_before_(space_before) {
    special_keeps_space_ = true;  // the unknown piece decodes to a text with a space of its own
    if (model_.remove_extra_whitespaces)
      leading_space_ = LeadingSpace::drop_all;
    else if (model_.add_dummy_prefix)
      leading_space_ = LeadingSpace::drop_one;
    std::vector<AddedToken> tokens;
    byte_tokens_.fill(model_.unknown);
    for (int id = 0; id < int_size(model_.pieces); ++id) {
      const SentencePiece& piece = model_.pieces[at(id)];
      const std::optional<unsigned char> byte =
          piece.type == PieceType::byte ? byte_of_piece(piece.text) : std::nullopt;
      if (byte) byte_tokens_[*byte] = id;
      const bool special = piece.type == PieceType::control || piece.type == PieceType::unknown;
      if (special) tokens.push_back({.id = id, .text = piece.text, .special = true});
      pieces_.push_back(piece.type == PieceType::control   ? ""
                        : piece.type == PieceType::unknown ? model_.unknown_text
                        : byte                             ? std::string(1, static_cast<char>(*byte))
                                                           : with_spaces(piece.text));
    }
    for (const AddedToken& token : added) {
      const auto id = num(token.id);
      if (id < model_.pieces.size()) continue;  // the model has it
      if (id >= pieces_.size()) pieces_.resize(id + 1);
      pieces_[id] = token.text;
      tokens.push_back(token);
    }
    set_added(std::move(tokens));
  }

 private:
  void encode_plain(std::string_view text, bool first, std::vector<int>& tokens) const override;
  std::string in_marks(std::string_view text, bool first) const;

  SentencePieceModel model_;
  PieceIndex index_;  // refers to model_, which therefore never moves: tokenizers live behind pointers
  SpaceBefore space_before_;
  std::array<int, 256> byte_tokens_{};
};

// Replacements of the charsmap, spaces as ▁ with one before the text; where the model asks for it no space at either
// end and never two in a row. User-defined pieces pass as they are.
std::string SentencePieceTokenizer::in_marks(std::string_view text, bool first) const {
  const std::string_view mark = model_.escape_whitespaces ? kSpaceMark : " ";
  const bool prefix = model_.add_dummy_prefix && (first || space_before_ == SpaceBefore::every_stretch);
  std::string result = prefix ? std::string(mark) : "";
  bool after_space = model_.remove_extra_whitespaces;  // so that spaces at the beginning go
  while (!text.empty()) {
    std::size_t length = index_.user_defined.longest_prefix(text);
    std::string piece(text.substr(0, length));
    if (length == 0) {
      const Charsmap::Match match = model_.charsmap.match(text);
      const Character next = first_character(text);
      length = match.length > 0 ? match.length : next.length;
      piece = match.length > 0 ? std::string(match.replacement) : std::string();
      if (match.length == 0) append_utf8(next.point, piece);
    }
    text.remove_prefix(length);
    std::string_view rest = piece;
    while (after_space && !rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
    if (rest.empty()) continue;
    for (const char c : rest) result += c == ' ' ? std::string(mark) : std::string(1, c);
    after_space = model_.remove_extra_whitespaces && rest.back() == ' ';
  }
  while (model_.remove_extra_whitespaces && result.ends_with(mark)) result.resize(result.size() - mark.size());
  return result;
}

void SentencePieceTokenizer::encode_plain(std::string_view text, bool first, std::vector<int>& tokens) const {
  const std::string normal = in_marks(text, first);
  const bool bpe = model_.kind == SentencePieceModel::Kind::bpe;
  bool after_unknown = false;
  for (const PieceCut& cut : bpe ? cut_bpe(index_, normal) : cut_unigram(index_, normal)) {
    const bool unknown = cut.id == model_.unknown;
    if (unknown && model_.byte_fallback)
      for (const char c : cut.text) tokens.push_back(byte_tokens_[static_cast<unsigned char>(c)]);
    else if (!(unknown && after_unknown))  // a run of unknown characters is one piece
      tokens.push_back(cut.id);
    after_unknown = unknown;
  }
}

// Lines of a token in base64, a blank and its rank: "IQ== 0".
bool is_tiktoken(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, std::min(bytes.find('\n'), bytes.size()));
  const std::size_t blank = line.find(' ');
  if (line.size() > 1000 || blank == std::string_view::npos || blank == 0 || blank + 1 == line.size()) return false;
  const auto is_base64 = [](unsigned char c) { return std::isalnum(c) != 0 || c == '+' || c == '/' || c == '='; };
  const auto is_rank = [](unsigned char c) { return std::isdigit(c) != 0 || c == '\r'; };
  const std::string_view token = line.substr(0, blank), rank = line.substr(blank + 1);
  return std::all_of(token.begin(), token.end(), is_base64) && std::all_of(rank.begin(), rank.end(), is_rank);
}

}  // namespace

LoadedSentencePiece load_sentencepiece(const std::string& path, const std::vector<AddedToken>& added,
                                       SpaceBefore space_before) {
  const MappedFile file = MappedFile::open(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (is_tiktoken(bytes))
    bad_input(
        "{}: this is a list of ranks of tiktoken, not a sentencepiece model; take the tokenizer.json of the same model",
        path);
  SentencePieceModel model = parse_sentencepiece(bytes, path);
  const std::string bos = model.bos, eos = model.eos;
  return {std::make_unique<SentencePieceTokenizer>(std::move(model), added, space_before), bos, eos};
}

}  // namespace weft
