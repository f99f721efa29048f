#include "weft/io/unicode/unicode.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace weft {
namespace {

struct CodeRange {
  char32_t first, last;
};

#include "weft/io/unicode/unicode_tables.inc"

struct CategoryRange {
  char32_t first, last;
  Category category;
};
struct CaseRange {  // every `step`-th character from `first` to `last` has its lower case `offset` further on
  char32_t first, last;
  char32_t step;
  int offset;
};
using enum Category;

#include "weft/io/unicode/category_tables.inc"

template <std::size_t n>
bool is_in(const CodeRange (&ranges)[n], char32_t point) {
  const CodeRange* found =
      std::lower_bound(std::begin(ranges), std::end(ranges), point,
                       [](const CodeRange& range, char32_t wanted) { return range.last < wanted; });
  return found != std::end(ranges) && found->first <= point;
}

template <typename Range, std::size_t n>
const Range* range_of(const Range (&ranges)[n], char32_t point) {
  const Range* found = std::lower_bound(std::begin(ranges), std::end(ranges), point,
                                        [](const Range& range, char32_t wanted) { return range.last < wanted; });
  return found != std::end(ranges) && found->first <= point ? found : nullptr;
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

// The letters and numbers of unicode_tables.inc are of a later Unicode: those that this table lacks count as Lo and No.
Category category_of(char32_t point) {
  if (const CategoryRange* range = range_of(kCategories, point)) return range->category;
  if (point >= 0x80 && is_letter(point)) return Category::Lo;
  return point >= 0x80 && is_number(point) ? Category::No : Category::Cn;
}

bool is_mark(char32_t point) {
  const Category category = category_of(point);
  return category >= Category::Mn && category <= Category::Me;
}

bool is_punctuation(char32_t point) {
  const Category category = category_of(point);
  return category >= Category::Pc && category <= Category::Po;
}

bool is_symbol(char32_t point) {
  const Category category = category_of(point);
  return category >= Category::Sm && category <= Category::So;
}

bool is_control(char32_t point) {
  const Category category = category_of(point);
  return category == Category::Cc || category == Category::Cf || category == Category::Co;
}

std::u32string_view lowercase(char32_t point) {
  thread_local char32_t lower;
  if (point == 0x130) return U"i\u0307";  // the one character whose lower case is two
  const CaseRange* range = range_of(kLowercase, point);
  if (range == nullptr || (point - range->first) % range->step != 0) return {};
  lower = static_cast<char32_t>(static_cast<std::int64_t>(point) + range->offset);
  return {&lower, 1};
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

}  // namespace weft
