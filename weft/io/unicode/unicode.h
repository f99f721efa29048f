// As much of Unicode as tokenizers need: UTF-8 one character at a time, and the classes \p{L}, \p{N} and \s of their
// splitting patterns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

enum class Utf8 {
  complete,   // a character
  malformed,  // bytes that begin none
  cut_short,  // the text ends within what may be a character
};

// What stands at the beginning of `text`, which must not be empty, and how many bytes of it: for malformed bytes those
// that decoders replace by one U+FFFD, the longest beginning of a character and at least 1.
struct Utf8Step {
  Utf8 kind;
  std::size_t length;
  char32_t point;  // U+FFFD where it is no character
};
Utf8Step utf8_step(std::string_view text);

// One character, or one byte of malformed text as U+FFFD: every byte of any text belongs to exactly one.
struct Character {
  char32_t point;
  std::size_t length;
};
Character first_character(std::string_view text);  // of a text that is not empty

void append_utf8(char32_t point, std::string& text);
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_letter(char32_t point);  // \p{L}
bool is_number(char32_t point);  // \p{N}
bool is_space(char32_t point);   // \s: Unicode's White_Space

// General categories, as \p{Lu} names them. Cn: no character has this code point.
enum class Category {
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Cs,
  Co,
  Cn
};
Category category_of(char32_t point);
bool is_mark(char32_t point);         // \p{M}
bool is_punctuation(char32_t point);  // \p{P}
bool is_symbol(char32_t point);       // \p{S}
bool is_control(char32_t point);      // neither seen nor a space: Cc, Cf, Co

std::u32string_view lowercase(char32_t point);  // of one character; empty where it is its own

// The text without the spaces that it ends in.
std::string_view without_spaces_before(std::string_view text);

}  // namespace weft
