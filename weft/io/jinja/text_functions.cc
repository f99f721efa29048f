#include "weft/io/jinja/text_functions.h"

#include "weft/io/unicode/unicode.h"

namespace weft::jinja {
namespace {

template <typename Goes>
std::string stripped_where(std::string_view text, Ends ends, Goes goes) {
  while (ends != Ends::right && !text.empty()) {
    const Character next = first_character(text);
    if (!goes(text.substr(0, next.length), next.point)) break;
    text.remove_prefix(next.length);
  }
  while (ends != Ends::left && !text.empty()) {
    std::size_t start = text.size() - 1;  // of the last character
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    if (!goes(text.substr(start), first_character(text.substr(start)).point)) break;
    text = text.substr(0, start);
  }
  return std::string(text);
}

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 0x20) : c; }

}  // namespace

std::string stripped(std::string_view text, Ends ends) {
  // Python's space has four separators of ASCII that Unicode's has not.
  return stripped_where(
      text, ends, [](std::string_view, char32_t point) { return is_space(point) || (point >= 0x1C && point <= 0x1F); });
}

std::string stripped(std::string_view text, Ends ends, std::string_view of) {
  return stripped_where(
      text, ends, [&](std::string_view character, char32_t) { return of.find(character) != std::string_view::npos; });
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t most) {
  std::string out;
  while (!from.empty() && most != 0) {
    const std::size_t found = text.find(from);
    if (found == std::string_view::npos) break;
    out.append(text.substr(0, found)).append(to);
    text.remove_prefix(found + from.size());
    if (most > 0) --most;
  }
  return out + std::string(text);
}

std::vector<std::string> split(std::string_view text, std::string_view by, std::int64_t most) {
  std::vector<std::string> parts;
  for (std::size_t found; most != 0 && (found = text.find(by)) != std::string_view::npos; --most) {
    parts.emplace_back(text.substr(0, found));
    text.remove_prefix(found + by.size());
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  bool in_word = false;
  while (!text.empty()) {
    const Character next = first_character(text);
    const bool space = is_space(next.point);
    if (!space && !in_word) parts.emplace_back();
    if (!space) parts.back() += text.substr(0, next.length);
    in_word = !space;
    text.remove_prefix(next.length);
  }
  return parts;
}

std::string lowered(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character next = first_character(text);
    const std::u32string_view lower = lowercase(next.point);
    if (lower.empty()) out += text.substr(0, next.length);
    for (const char32_t each : lower) append_utf8(each, out);
    text.remove_prefix(next.length);
  }
  return out;
}

std::string raised(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = upper(c);
  return out;
}

std::string capitalised(std::string_view text, bool every_word) {
  std::string out = lowered(text);
  bool begins = true;
  for (char& c : out) {
    const bool letter = (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 0x80;
    if (begins) c = upper(c);
    begins = every_word ? !letter : false;
  }
  return out;
}

std::int64_t length_of(std::string_view text) {
  std::int64_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(first_character(text).length);
  return count;
}

}  // namespace weft::jinja
