// From the text of a template to tokens: text outside braces, and words, numbers, strings and symbols inside. Space
// around blocks goes as transformers sets it: the line end behind a block, and blanks before a block that begins a
// line; `-` takes all space on its side, `+` none.
#include <algorithm>
#include <array>

#include "weft/base/error.h"
#include "weft/io/jinja/syntax.h"
#include "weft/io/unicode/unicode.h"

namespace weft::jinja {
namespace {

constexpr std::size_t kMostTemplateBytes = std::size_t{1} << 20;
constexpr std::string_view kBlank = " \t\n\r\f\v";

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& where) : text_(text), where_(where) {
    if (text.size() > kMostTemplateBytes) bad_input("{}: the chat template is larger than 1 MiB", where);
    if (text_.ends_with("\r\n"))
      text_.remove_suffix(2);
    else if (text_.ends_with("\n"))
      text_.remove_suffix(1);
  }

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      const std::size_t open = next_tag();
      add_text(open);
      if (open == std::string_view::npos) break;
      const char kind = text_[open + 1];
      at_ = open + 2;
      if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
      if (kind == '#')
        skip_comment();
      else if (kind == '%' && !skip_raw())
        code(Token::Kind::begin_block, "%}");
      else if (kind == '{')
        code(Token::Kind::begin_print, "}}");
    }
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    bad_input("{}: line {} of the chat template: {}", where_, line_at(at_), why);
  }
  int line_at(std::size_t place) const {
    const auto begin = text_.begin();
    return 1 + static_cast<int>(
                   std::count(begin, begin + static_cast<std::ptrdiff_t>(std::min(place, text_.size())), '\n'));
  }
  void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  std::size_t next_tag() const {
    for (std::size_t open = text_.find('{', at_); open != std::string_view::npos; open = text_.find('{', open + 1))
      if (open + 1 < text_.size() && (text_[open + 1] == '{' || text_[open + 1] == '%' || text_[open + 1] == '#'))
        return open;
    return std::string_view::npos;
  }

  // The text up to a tag, less what the tag's sign and the rules take of it.
  void add_text(std::size_t open) {
    std::string_view text = text_.substr(at_, open == std::string_view::npos ? open : open - at_);
    line_ = line_at(at_);
    if (open != std::string_view::npos) {
      const char sign = open + 2 < text_.size() ? text_[open + 2] : ' ';
      if (sign == '-')
        text = text.substr(0, text.find_last_not_of(kBlank) + 1);
      else if (sign != '+' && text_[open + 1] != '{')
        text = without_indent(text);
    }
    if (!text.empty()) add(Token::Kind::text, std::string(text));
    line_ = line_at(open);
  }

  std::string_view without_indent(std::string_view text) const {
    const std::size_t line = text.rfind('\n') + 1;  // 0 where there is none
    if (line == 0 && !line_starts_) return text;
    return text.find_first_not_of(" \t\r\f\v", line) == std::string_view::npos ? text.substr(0, line) : text;
  }

  // Behind "-%}" all space goes, behind "%}" a line end, behind "}}" nothing.
  void end_tag(char sign, bool trims) {
    const std::size_t begin = at_;
    if (sign == '-')
      at_ = std::min(text_.find_first_not_of(kBlank, at_), text_.size());
    else if (trims && sign != '+' && at_ < text_.size() && text_[at_] == '\n')
      ++at_;
    line_starts_ = at_ > begin && text_[at_ - 1] == '\n';
  }

  void skip_comment() {
    const std::size_t close = text_.find("#}", at_);
    if (close == std::string_view::npos) refuse("a comment {# has no #}");
    const char sign = close > at_ ? text_[close - 1] : ' ';
    at_ = close + 2;
    end_tag(sign, true);
  }

  // {% raw %} ... {% endraw %}: the text between is text.
  bool skip_raw() {
    const auto word_at = [&](std::size_t place, std::string_view word) -> std::size_t {
      place = text_.find_first_not_of(kBlank, place);
      if (place == std::string_view::npos || !text_.substr(place).starts_with(word)) return 0;
      place = text_.find_first_not_of(kBlank, place + word.size());
      if (place == std::string_view::npos) return 0;
      if (text_[place] == '-' || text_[place] == '+') ++place;
      return text_.substr(place).starts_with("%}") ? place + 2 : 0;
    };
    const std::size_t begin = word_at(at_, "raw");
    if (begin == 0) return false;
    at_ = begin;
    end_tag(text_[begin - 3], true);
    for (std::size_t open = text_.find("{%", at_); open != std::string_view::npos; open = text_.find("{%", open + 2)) {
      const bool sign = open + 2 < text_.size() && (text_[open + 2] == '-' || text_[open + 2] == '+');
      const std::size_t end = word_at(open + 2 + sign, "endraw");
      if (end == 0) continue;
      add_text(open);
      at_ = end;
      end_tag(text_[end - 3], true);
      return true;
    }
    refuse("{% raw %} has no {% endraw %}");
  }

  void code(Token::Kind begin, std::string_view close) {
    add(begin, "");
    std::vector<char> open;  // brackets: a }} inside them closes a dictionary
    while (true) {
      at_ = std::min(text_.find_first_not_of(kBlank, at_), text_.size());
      if (at_ == text_.size()) refuse("a tag is not closed");
      const bool sign = text_[at_] == '-' || text_[at_] == '+';
      if (open.empty() && text_.substr(at_ + sign).starts_with(close)) break;
      line_ = line_at(at_);
      one_token(open);
    }
    const char sign = text_[at_];
    at_ += close.size() + (sign == '-' || sign == '+');
    const bool block = begin == Token::Kind::begin_block;
    add(block ? Token::Kind::end_block : Token::Kind::end_print, "");
    end_tag(sign, block);
  }

  void one_token(std::vector<char>& open) {
    const char c = text_[at_];
    const std::size_t begin = at_;
    if (is_name_start(c)) {
      while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
      return add(Token::Kind::name, std::string(text_.substr(begin, at_ - begin)));
    }
    if (is_digit(c)) {
      while (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '_')) ++at_;
      if (at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1]))
        for (++at_; at_ < text_.size() && is_digit(text_[at_]);) ++at_;
      return add(Token::Kind::number, std::string(text_.substr(begin, at_ - begin)));
    }
    if (c == '\'' || c == '"') return add(Token::Kind::string, string_literal());
    constexpr std::array<std::string_view, 7> kPairs = {"==", "!=", "<=", ">=", "//", "**", "{%"};
    for (const std::string_view pair : kPairs)
      if (text_.substr(at_).starts_with(pair)) {
        at_ += 2;
        return add(Token::Kind::symbol, std::string(pair));
      }
    if (std::string_view("+-*/%~|.,:()[]{}=<>").find(c) == std::string_view::npos)
      refuse("a character that means nothing");
    if (c == '(' || c == '[' || c == '{') open.push_back(c);
    if ((c == ')' || c == ']' || c == '}') && !open.empty()) open.pop_back();
    ++at_;
    add(Token::Kind::symbol, std::string(1, c));
  }

  std::string string_literal() {
    const char quote = text_[at_++];
    std::string out;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] != '\\') {
        out += text_[at_++];
        continue;
      }
      if (++at_ == text_.size()) break;
      escape(out);
    }
    if (at_ >= text_.size()) refuse("a string is not closed");
    ++at_;
    return out;
  }

  void escape(std::string& out) {
    const char c = text_[at_++];
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 0;
    if (digits > 0) {
      char32_t point = 0;
      for (std::size_t i = 0; i < digits; ++i, ++at_) {
        const char d = at_ < text_.size() ? text_[at_] : ' ';
        const int value = is_digit(d) ? d - '0' : (d | 0x20) >= 'a' && (d | 0x20) <= 'f' ? (d | 0x20) - 'a' + 10 : -1;
        if (value < 0) refuse("an escape in a string is damaged");
        point = point * 16 + static_cast<char32_t>(value);
      }
      if (point >= 0xD800 && point < 0xE000) refuse("an escape in a string is half a character");
      return append_utf8(point, out);
    }
    switch (c) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case '\n':
        break;  // the string goes on in the next line
      case '\\':
      case '\'':
      case '"':
        out += c;
        break;
      default:
        out += '\\';
        out += c;
    }
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenise(std::string_view text, const std::string& where) { return Lexer(text, where).run(); }

}  // namespace weft::jinja
