#include "weft/io/text/unicode.h"

#include <algorithm>
#include <iterator>

namespace weft {
namespace {

struct CodeRange {
  char32_t first, last;
};

#include "weft/io/text/unicode_tables.inc"

template <std::size_t n>
bool is_in(const CodeRange (&ranges)[n], char32_t point) {
  const CodeRange* found =
      std::lower_bound(std::begin(ranges), std::end(ranges), point,
                       [](const CodeRange& range, char32_t wanted) { return range.last < wanted; });
  return found != std::end(ranges) && found->first <= point;
}

bool is_ascii_letter(char32_t point) { return (point | 0x20) >= 'a' && (point | 0x20) <= 'z'; }

// The bytes of a character by its first one, and the range of the second, which excludes overlong forms, surrogates and
// what lies beyond U+10FFFF. Length 0: no character begins so.
struct Lead {
  std::size_t length;
  unsigned char low, high;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0) {
    const unsigned char low = byte == 0xE0 ? 0xA0 : 0x80, high = byte == 0xED ? 0x9F : 0xBF;
    return {3, low, high};
  }
  if (byte > 0xF4) return {0, 0, 0};
  const unsigned char low = byte == 0xF0 ? 0x90 : 0x80, high = byte == 0xF4 ? 0x8F : 0xBF;
  return {4, low, high};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {Utf8::complete, 1, byte(0)};
  const Lead lead = lead_of(byte(0));
  if (lead.length == 0) return {Utf8::malformed, 1, 0xFFFD};
  char32_t point = byte(0) & (0xFFu >> (lead.length + 1));
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Utf8::cut_short, i, 0xFFFD};
    const unsigned char low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {Utf8::malformed, i, 0xFFFD};
    point = point << 6 | (byte(i) & 0x3Fu);
  }
  return {Utf8::complete, lead.length, point};
}

Character first_character(std::string_view text) {
  const Utf8Step step = utf8_step(text);
  return step.kind == Utf8::complete ? Character{step.point, step.length} : Character{0xFFFD, 1};
}

void append_utf8(char32_t point, std::string& text) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xC0 | point >> 6);
  } else if (point < 0x10000) {
    add(0xE0 | point >> 12);
    add(0x80 | (point >> 6 & 0x3F));
  } else {
    add(0xF0 | point >> 18);
    add(0x80 | (point >> 12 & 0x3F));
    add(0x80 | (point >> 6 & 0x3F));
  }
  add(0x80 | (point & 0x3F));
}

bool is_letter(char32_t point) { return point < 0x80 ? is_ascii_letter(point) : is_in(kLetters, point); }

bool is_number(char32_t point) { return point < 0x80 ? point >= '0' && point <= '9' : is_in(kNumbers, point); }

bool is_space(char32_t point) {
  if (point < 0x80) return point == ' ' || (point >= 9 && point <= 13);
  return point == 0x85 || point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

}  // namespace weft
