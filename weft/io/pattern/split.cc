#include "weft/io/pattern/split.h"

#include "weft/io/unicode/unicode.h"

namespace weft {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

bool is_line_end(char32_t point) { return point == '\n' || point == '\r'; }
bool is_other(char32_t point) { return !is_space(point) && !is_letter(point) && !is_number(point); }

// The end of the longest stretch from `at` on of which every character is in the class, at most `most` of them.
template <typename InClass>
std::size_t stretch(std::string_view text, std::size_t at, InClass in_class, std::size_t most = SIZE_MAX) {
  for (; at < text.size() && most > 0; --most) {
    const Character next = first_character(text.substr(at));
    if (!in_class(next.point)) break;
    at += next.length;
  }
  return at;
}

// 's 't 're 've 'm 'll 'd at the beginning: its bytes, or 0. In any case, U+017F is an s as well.
std::size_t contraction(std::string_view text, bool any_case) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  if (any_case && text.substr(1, 2) == "\xC5\xBF") return 3;
  const auto letter = [&](std::size_t i) -> char {
    if (i >= text.size()) return 0;
    return any_case && text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] | 0x20) : text[i];
  };
  const char first = letter(1), second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  return first == 'l' && second == 'l' ? 3 : 0;
}

// \s+(?!\S)|\s+ : spaces up to the last one before a word, which goes with the word; at the end of a text all of them.
std::size_t spaces(std::string_view text) {
  std::size_t last = 0, at = 0;
  while (at < text.size()) {
    const Character next = first_character(text.substr(at));
    if (!is_space(next.point)) return last > 0 ? last : at;
    last = at;
    at += next.length;
  }
  return at;
}

std::size_t gpt2_word(std::string_view text) {
  if (const std::size_t length = contraction(text, false)) return length;
  const std::size_t start = text[0] == ' ' ? 1 : 0;
  if (const std::size_t end = stretch(text, start, is_letter); end > start) return end;
  if (const std::size_t end = stretch(text, start, is_number); end > start) return end;
  if (const std::size_t end = stretch(text, start, is_other); end > start) return end;
  return spaces(text);
}

// \s*[\r\n]+ : to the last line end among the spaces that the text begins with; 0 where there is none.
std::size_t lines(std::string_view text) {
  std::size_t last = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Character next = first_character(text.substr(at));
    if (!is_space(next.point)) break;
    at += next.length;
    if (is_line_end(next.point)) last = at;
  }
  return last;
}

std::size_t llama3_word(std::string_view text, std::size_t digits) {
  if (const std::size_t length = contraction(text, true)) return length;
  const Character first = first_character(text);
  const bool may_lead = !is_line_end(first.point) && !is_letter(first.point) && !is_number(first.point);
  const std::size_t start = may_lead ? first.length : 0;
  if (const std::size_t end = stretch(text, start, is_letter); end > start) return end;
  if (is_number(first.point)) return stretch(text, 0, is_number, digits);
  const std::size_t mark = text[0] == ' ' ? 1 : 0;
  if (const std::size_t end = stretch(text, mark, is_other); end > mark) return stretch(text, end, is_line_end);
  const std::size_t end = lines(text);
  return end > 0 ? end : spaces(text);
}

}  // namespace

std::optional<SplitRule> known_split_rule(std::string_view pattern) {
  if (pattern == kGpt2) return SplitRule::gpt2;
  if (pattern == kLlama3) return SplitRule::llama3;
  if (pattern == kQwen2) return SplitRule::qwen2;
  return std::nullopt;
}

std::size_t first_word(SplitRule rule, std::string_view text) {
  switch (rule) {
    case SplitRule::none:
      return text.size();
    case SplitRule::gpt2:
      return gpt2_word(text);
    case SplitRule::llama3:
      return llama3_word(text, 3);
    case SplitRule::qwen2:
      return llama3_word(text, 1);
  }
  return text.size();
}

}  // namespace weft
