#include "weft/io/text/word_piece.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/unicode/unicode.h"

namespace weft {

WordPieceOptions read_word_piece(const Json& model, const Vocabulary& vocabulary, const std::string& where) {
  WordPieceOptions options;
  const std::string unknown = get_string(model, "unk_token", where);
  const std::optional<int> id = vocabulary.find(unknown);
  if (!id) bad_input("{}: \"unk_token\" {} is not in the vocabulary", where, weft::quoted(unknown));
  options.unknown = *id;
  if (find_field(model, "continuing_subword_prefix", where))
    options.prefix = get_string(model, "continuing_subword_prefix", where);
  if (find_field(model, "max_input_chars_per_word", where))
    options.longest = num(get_int(model, "max_input_chars_per_word", where, 1, 1'000'000));
  return options;
}

WordPiece::WordPiece(Vocabulary vocabulary, std::vector<AddedToken> added, WordPieceOptions options,
                     TextPipeline pipeline)
    : PipelineTokenizer(std::move(pipeline)), vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
  for (const std::string& text : vocabulary_.texts) {
    pieces_.push_back(decoded(text));
    longest_ = std::max(longest_, text.size());
  }
  add_tokens(added);
  for (const AddedToken& token : added) pieces_[at(token.id)] = decoded(token.text);
}

// What a token adds to a text: a space before it unless it goes on a word. Which of English's contractions and marks
// lose that space is the library's list, applied to each token by itself.
std::string WordPiece::decoded(const std::string& text) const {
  if (text.starts_with(options_.prefix) && !options_.prefix.empty()) return text.substr(options_.prefix.size());
  std::string result = " " + text;
  if (!options_.cleanup) return result;
  for (const std::string_view tight : {" .", " ?", " !", " ,", " n't", " 'm", " 's", " 've", " 're"})
    for (std::size_t at = 0; (at = result.find(tight, at)) != std::string::npos;) result.erase(at, 1);
  return result;
}

void WordPiece::encode_word(std::string_view word, std::vector<int>& tokens) const {
  std::size_t characters = 0;
  for (const char c : word) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  if (characters > options_.longest) return tokens.push_back(options_.unknown);
  std::vector<int> found;
  for (std::size_t start = 0; start < word.size();) {
    std::size_t end = std::min(word.size(), start + longest_);
    while (end < word.size() && end > start && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) --end;
    std::optional<int> id;
    while (end > start) {
      id = vocabulary_.find((start > 0 ? options_.prefix : "") + std::string(word.substr(start, end - start)));
      if (id) break;
      do --end;
      while (end > start && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80);
    }
    if (!id) return tokens.push_back(options_.unknown);
    found.push_back(*id);
    start = end;
  }
  tokens.insert(tokens.end(), found.begin(), found.end());
}

}  // namespace weft
