#include "weft/io/text/unigram.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/text/piece_bpe.h"
#include "weft/io/text/vocabulary.h"
#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

constexpr double kUnknownPenalty = 10;

struct Reached {  // the best way to here
  double score = 0;
  std::size_t from = SIZE_MAX;  // where its last piece begins
  bool unknown = false;
};

}  // namespace

UnigramPieces read_unigram(const Json& model, const std::string& where) {
  UnigramPieces pieces;
  const Json& list = get_array(model, "vocab", where);
  if (list.empty()) bad_input("{}: \"vocab\" has no piece; the file is damaged", where);
  for (const Json& item : list) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number())
      bad_input("{}: item {} of \"vocab\" is no pair of a text and a score; the file is damaged", where,
                pieces.texts.size());
    pieces.texts.push_back(item[0].get<std::string>());
    pieces.scores.push_back(item[1].get<double>());
    if (!std::isfinite(pieces.scores.back()))
      bad_input("{}: the score of item {} of \"vocab\" is no finite number", where, pieces.texts.size() - 1);
  }
  const Json* unknown = find_field(model, "unk_id", where);
  if (unknown && !unknown->is_null()) pieces.unknown = get_small(model, "unk_id", where, 0, int_size(pieces.texts) - 1);
  pieces.byte_fallback = stage_flag(model, "byte_fallback", false, where);
  if (!pieces.unknown && !pieces.byte_fallback)
    bad_input("{}: there is neither \"unk_id\" nor \"byte_fallback\" for unknown characters; give one", where);
  return pieces;
}

Unigram::Unigram(UnigramPieces pieces, std::vector<AddedToken> added, TextPipeline pipeline)
    : PipelineTokenizer(std::move(pipeline)), own_(std::move(pieces)) {
  byte_tokens_.fill(-1);
  for (int id = 0; id < int_size(own_.texts); ++id) {
    const std::string& text = own_.texts[at(id)];
    ids_[text] = id;
    if (!text.empty()) trie_.add(text, id);
    const std::optional<unsigned char> byte = own_.byte_fallback ? byte_of_piece(text) : std::nullopt;
    if (byte) byte_tokens_[*byte] = id;
    pieces_.push_back(byte ? std::string(1, static_cast<char>(*byte)) : with_spaces(text));
  }
  unknown_score_ = *std::min_element(own_.scores.begin(), own_.scores.end()) - kUnknownPenalty;
  add_tokens(std::move(added));
}

// One pass; at each character the pieces that begin there. Ties go to the way that was found first, as in the library.
std::vector<std::string_view> Unigram::cut(std::string_view word) const {
  std::vector<Reached> ends(word.size() + 1);
  const auto offer = [&](std::size_t start, std::size_t length, double score, bool unknown) {
    Reached& end = ends[start + length];
    const double total = score + ends[start].score;
    if (end.from == SIZE_MAX || total > end.score) end = {total, start, unknown};
  };
  for (std::size_t start = 0; start < word.size();) {
    const std::size_t character = first_character(word.substr(start)).length;
    bool has_character = false;
    trie_.for_each_prefix(word.substr(start), [&](std::size_t length, int id) {
      offer(start, length, own_.scores[at(id)], own_.unknown == id);
      has_character = has_character || length == character;
    });
    if (!has_character) offer(start, character, unknown_score_, true);
    start += character;
  }
  std::vector<std::string_view> cuts;
  bool before_unknown = false;
  for (std::size_t end = word.size(); end > 0; end = ends[end].from) {
    const Reached& reached = ends[end];
    const std::string_view piece = word.substr(reached.from, end - reached.from);
    if (reached.unknown && before_unknown && own_.unknown)
      cuts.back() = {piece.data(), piece.size() + cuts.back().size()};
    else
      cuts.push_back(piece);
    before_unknown = reached.unknown;
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

void Unigram::add_token(std::string_view text, std::vector<int>& tokens) const {
  if (const auto found = ids_.find(std::string(text)); found != ids_.end()) return tokens.push_back(found->second);
  const bool has_bytes = own_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char c) {
                           return byte_tokens_[static_cast<unsigned char>(c)] >= 0;
                         });
  if (has_bytes)
    for (const char c : text) tokens.push_back(byte_tokens_[static_cast<unsigned char>(c)]);
  else if (own_.unknown)
    tokens.push_back(*own_.unknown);
  else
    bad_input("the text has {}, for which the vocabulary has no token; leave it out", weft::quoted(text));
}

void Unigram::encode_word(std::string_view word, std::vector<int>& tokens) const {
  for (const std::string_view piece : cut(word)) add_token(piece, tokens);
}

}  // namespace weft
