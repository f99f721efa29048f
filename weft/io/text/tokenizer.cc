// What all tokenizers share: added tokens in a text, and joining pieces into text.
#include "weft/io/text/tokenizer.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

// The characters of `bytes` that are whole go to `text`, malformed ones as U+FFFD; the beginning of one stays in
// `bytes`.
void move_characters(std::string& bytes, std::string& text) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8::cut_short) break;
    text += step.kind == Utf8::complete ? rest.substr(0, step.length) : kReplacement;
    rest.remove_prefix(step.length);
  }
  bytes = std::string(rest);
}

std::string_view without_spaces_after(std::string_view text) {
  while (!text.empty()) {
    const Character next = first_character(text);
    if (!is_space(next.point)) break;
    text.remove_prefix(next.length);
  }
  return text;
}

// \w: letters, marks, digits, letter-like numbers and symbols, what joins words.
bool is_of_word(char32_t point) {
  const Category category = category_of(point);
  const bool circled = (point >= 0x24B6 && point <= 0x24E9) || (point >= 0x1F130 && point <= 0x1F149) ||
                       (point >= 0x1F150 && point <= 0x1F169) || (point >= 0x1F170 && point <= 0x1F189);
  return is_letter(point) || is_mark(point) || category == Category::Nd || category == Category::Nl ||
         category == Category::Pc || point == 0x200C || point == 0x200D || circled;
}

char32_t last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return first_character(text.substr(begin)).point;
}

bool stands_alone(std::string_view text, std::size_t start, std::size_t stop) {
  return (start == 0 || !is_of_word(last_character(text.substr(0, start)))) &&
         (stop == text.size() || !is_of_word(first_character(text.substr(stop)).point));
}

}  // namespace

void AddedTokens::set(std::vector<AddedToken> tokens, std::vector<std::string> texts) {
  tokens_ = std::move(tokens);
  texts_ = std::move(texts);
  for (auto& places : by_first_byte_) places.clear();
  for (std::size_t i = 0; i < texts_.size(); ++i)
    if (!texts_[i].empty()) by_first_byte_[static_cast<unsigned char>(texts_[i][0])].push_back(i);
  for (auto& places : by_first_byte_)
    std::stable_sort(places.begin(), places.end(),
                     [&](std::size_t a, std::size_t b) { return texts_[a].size() > texts_[b].size(); });
}

AddedTokens::Found AddedTokens::longest_at(std::string_view text) const {
  for (const std::size_t i : by_first_byte_[static_cast<unsigned char>(text[0])])
    if (text.starts_with(texts_[i])) return {&tokens_[i], texts_[i].size()};
  return {};
}

// What a token strips beside it belongs to it; a special token that is not asked for is passed over as a whole. A token
// of spaces is found again among those that the one before it stripped, as the library has it.
std::vector<AddedTokens::Part> AddedTokens::parts_of(std::string_view text, bool with_special) const {
  std::vector<Part> parts;
  std::size_t begin = 0;  // of what no part has yet
  for (std::size_t at = 0; at < text.size() && !tokens_.empty();) {
    const auto [token, length] = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    const std::size_t start = at, stop = at + length;
    at = stop;
    if (token->special && !with_special) continue;
    if (token->single_word && !stands_alone(text, start, stop)) continue;
    std::size_t plain_end = start;
    if (token->strip_left && begin < start)
      plain_end = begin + without_spaces_before(text.substr(begin, start - begin)).size();
    if (begin < plain_end) parts.push_back({text.substr(begin, plain_end - begin), nullptr});
    parts.push_back({text.substr(start, length), token});
    if (!token->strip_right)
      begin = stop;
    else if (begin <= stop)  // else the token before has taken these spaces, up to the same end
      begin = text.size() - without_spaces_after(text.substr(stop)).size();
  }
  if (begin < text.size()) parts.push_back({text.substr(begin), nullptr});
  return parts;
}

void Tokenizer::set_added(std::vector<AddedToken> added) {
  special_.assign(pieces_.size(), false);
  std::vector<AddedToken> raw, normal;
  std::vector<std::string> raw_texts, normal_texts;
  for (AddedToken& token : added) {
    special_[at(token.id)] = token.special;
    (token.normalized ? normal_texts : raw_texts).push_back(token.normalized ? normalised(token.text) : token.text);
    (token.normalized ? normal : raw).push_back(std::move(token));
  }
  added_.set(std::move(raw), std::move(raw_texts));
  normalized_added_.set(std::move(normal), std::move(normal_texts));
}

std::vector<int> Tokenizer::encode_parts(std::string_view text, bool with_special) const {
  std::vector<int> tokens;
  bool first = true;
  for (const AddedTokens::Part& part : added_.parts_of(text, with_special)) {
    if (part.token != nullptr) tokens.push_back(part.token->id);
    const std::string normal = part.token == nullptr ? normalised(part.text) : "";
    for (const AddedTokens::Part& inner : normalized_added_.parts_of(normal, with_special)) {
      if (inner.token != nullptr)
        tokens.push_back(inner.token->id);
      else
        encode_plain(inner.text, first, tokens);
      first = false;
    }
    first = false;
  }
  return tokens;
}

std::vector<int> Tokenizer::encode(std::string_view text) const { return encode_parts(text, false); }

std::vector<int> Tokenizer::encode_with_special(std::string_view text) const { return encode_parts(text, true); }

std::string Tokenizer::decode(std::span<const int> tokens) const {
  TextStream stream(*this);
  std::string text;
  for (const int token : tokens) {
    check(token);
    text += stream.add(token);
  }
  return text + stream.finish();
}

bool Tokenizer::is_special(int token) const { return token >= 0 && token < vocab_size() && special_[at(token)]; }

std::optional<int> Tokenizer::find_token(std::string_view text) const {
  for (const AddedTokens* list : {&added_, &normalized_added_})
    for (const AddedToken& token : list->tokens())
      if (token.text == text) return token.id;
  return std::nullopt;
}

void Tokenizer::check(int token) const {
  if (token < 0 || token >= vocab_size())
    bad_input("token {} is not in the vocabulary; give ids from 0 to {}", token, vocab_size() - 1);
}

const std::string& Tokenizer::piece_bytes(int token) const {
  check(token);
  return pieces_[at(token)];
}

std::string Tokenizer::token_text(int token) const {
  std::string bytes = piece_bytes(token), text;
  if (bytes.empty())
    for (const AddedTokens* list : {&added_, &normalized_added_})
      for (const AddedToken& added : list->tokens())
        if (added.id == token) return added.text;
  move_characters(bytes, text);
  return bytes.empty() ? text : text + std::string(kReplacement);
}

std::string TextStream::add(int token) {
  if (token >= tokenizer_->vocab_size()) return "";
  std::string_view piece = tokenizer_->piece_bytes(token);
  if (at_start_ && !piece.empty()) {
    const LeadingSpace leading = tokenizer_->leading_space_;
    // The unknown piece of sentencepiece decodes to a text that begins with a space of its own.
    const bool drops = leading != LeadingSpace::keep && piece[0] == ' ' &&
                       !(tokenizer_->special_keeps_space_ && tokenizer_->is_special(token));
    if (drops) piece.remove_prefix(1);
    at_start_ = drops && leading == LeadingSpace::drop_all && piece.empty();
  }
  pending_ += piece;
  std::string text;
  move_characters(pending_, text);
  return text;
}

std::string TextStream::finish() {
  std::string text;
  move_characters(pending_, text);
  if (!pending_.empty()) text += kReplacement;  // one character was begun
  pending_.clear();
  at_start_ = true;
  return text;
}

}  // namespace weft
