#include "weft/io/text/piece_bpe.h"

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/unicode/unicode.h"

namespace weft {
std::string with_spaces(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const bool mark = text.substr(0, kSpaceMark.size()) == kSpaceMark;
    result += mark ? ' ' : text[0];
    text.remove_prefix(mark ? kSpaceMark.size() : 1);
  }
  return result;
}

std::optional<unsigned char> byte_of_piece(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    if (c >= '0' && c <= '9')
      value = 16 * value + (c - '0');
    else if (c >= 'A' && c <= 'F')
      value = 16 * value + (c - 'A' + 10);
    else
      return std::nullopt;
  }
  return static_cast<unsigned char>(value);
}

PieceBpe::PieceBpe(Vocabulary vocabulary, Merges merges, std::vector<AddedToken> added, const PieceOptions& options,
                   TextPipeline pipeline, std::string_view where)
    : PipelineTokenizer(std::move(pipeline)),
      options_(options),
      vocabulary_(std::move(vocabulary)),
      merges_(std::move(merges)) {
  byte_tokens_.fill(-1);
  pieces_.resize(vocabulary_.texts.size());
  for (int id = 0; id < int_size(pieces_); ++id) {
    const std::string& text = vocabulary_.texts[at(id)];
    const std::optional<unsigned char> byte = options_.byte_fallback ? byte_of_piece(text) : std::nullopt;
    if (byte) byte_tokens_[*byte] = id;
    pieces_[at(id)] = byte ? std::string(1, static_cast<char>(*byte)) : with_spaces(text);
  }
  for (int byte = 0; byte < 256 && !options_.unknown; ++byte)
    if (byte_tokens_[at(byte)] < 0)
      bad_input("{}: there is neither \"unk_token\" nor a token <0x{:02X}> for unknown characters; give one", where,
                byte);
  add_tokens(std::move(added));
}

void PieceBpe::encode_word(std::string_view word, std::vector<int>& tokens) const {
  if (options_.ignore_merges) {
    if (const std::optional<int> whole = vocabulary_.find(std::string(word))) {
      tokens.push_back(*whole);
      return;
    }
  }
  std::vector<int> symbols;
  bool after_unknown = false;
  while (!word.empty()) {
    const std::string_view character = word.substr(0, first_character(word).length);
    word.remove_prefix(character.size());
    bool has_bytes = options_.byte_fallback;
    for (const char c : character) has_bytes = has_bytes && byte_tokens_[static_cast<unsigned char>(c)] >= 0;
    const std::optional<int> known = vocabulary_.find(std::string(character));
    const bool unknown = !known && !has_bytes;
    if (known)
      symbols.push_back(*known);
    else if (has_bytes)
      for (const char c : character) symbols.push_back(byte_tokens_[static_cast<unsigned char>(c)]);
    else if (!(after_unknown && options_.fuse_unknown))
      symbols.push_back(*options_.unknown);
    after_unknown = unknown;
  }
  merges_.apply(symbols);
  tokens.insert(tokens.end(), symbols.begin(), symbols.end());
}

}  // namespace weft
