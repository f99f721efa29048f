// What all tokenizers share: added tokens in a text, and joining pieces into text.
#include "weft/io/text/tokenizer.h"

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/index.h"
#include "weft/io/text/unicode.h"

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

std::string_view without_spaces_before(std::string_view text) {
  while (!text.empty()) {
    std::size_t start = text.size() - 1;  // of the last character
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    const Character last = first_character(text.substr(start));
    if (start + last.length != text.size() || !is_space(last.point)) break;
    text.remove_suffix(last.length);
  }
  return text;
}

std::string_view without_spaces_after(std::string_view text) {
  while (!text.empty()) {
    const Character next = first_character(text);
    if (!is_space(next.point)) break;
    text.remove_prefix(next.length);
  }
  return text;
}

}  // namespace

void Tokenizer::set_added(std::vector<AddedToken> added) {
  std::stable_sort(added.begin(), added.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.text.size() > b.text.size(); });
  added_ = std::move(added);
  for (auto& places : by_first_byte_) places.clear();
  special_.assign(pieces_.size(), false);
  for (std::size_t i = 0; i < added_.size(); ++i) {
    by_first_byte_[static_cast<unsigned char>(added_[i].text[0])].push_back(i);
    special_[at(added_[i].id)] = added_[i].special;
  }
}

const AddedToken* Tokenizer::added_at(std::string_view text, bool with_special) const {
  for (const std::size_t i : by_first_byte_[static_cast<unsigned char>(text[0])]) {
    const AddedToken& token = added_[i];
    if ((with_special || !token.special) && text.substr(0, token.text.size()) == token.text) return &token;
  }
  return nullptr;
}

std::vector<int> Tokenizer::encode_parts(std::string_view text, bool with_special) const {
  std::vector<int> tokens;
  bool first = true;
  std::string_view rest = text;
  std::size_t at = 0;
  while (at < rest.size()) {
    const AddedToken* token = added_at(rest.substr(at), with_special);
    if (!token) {
      ++at;
      continue;
    }
    const std::string_view before = rest.substr(0, at);
    const std::string_view plain = token->strip_left ? without_spaces_before(before) : before;
    if (!plain.empty()) encode_plain(plain, first, tokens);
    tokens.push_back(token->id);
    first = false;
    rest.remove_prefix(at + token->text.size());
    if (token->strip_right) rest = without_spaces_after(rest);
    at = 0;
  }
  if (!rest.empty()) encode_plain(rest, first, tokens);
  return tokens;
}

std::vector<int> Tokenizer::encode(std::string_view text) const { return encode_parts(text, false); }

std::vector<int> Tokenizer::encode_with_special(std::string_view text) const { return encode_parts(text, true); }

std::string Tokenizer::decode(std::span<const int> tokens) const {
  TextStream stream(*this);
  std::string text;
  for (const int token : tokens) text += stream.add(token);
  return text + stream.finish();
}

bool Tokenizer::is_special(int token) const { return token >= 0 && token < vocab_size() && special_[at(token)]; }

std::optional<int> Tokenizer::find_token(std::string_view text) const {
  for (const AddedToken& token : added_)
    if (token.text == text) return token.id;
  return std::nullopt;
}

const std::string& Tokenizer::piece_bytes(int token) const {
  if (token < 0 || token >= vocab_size())
    bad_input("token {} is not in the vocabulary; give ids from 0 to {}", token, vocab_size() - 1);
  return pieces_[at(token)];
}

std::string TextStream::add(int token) {
  std::string_view piece = tokenizer_->piece_bytes(token);
  if (at_start_ && !piece.empty()) {
    const LeadingSpace leading = tokenizer_->leading_space_;
    // The unknown piece of sentencepiece decodes to a text that begins with a space of its own.
    const bool drops = leading != LeadingSpace::keep && piece[0] == ' ' && !tokenizer_->is_special(token);
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
