#include "weft/io/unicode/unicode.h"

#include <random>
#include <regex>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/io/pattern/split.h"

namespace weft {
namespace {

TEST(Unicode, EveryCodePointGoesThereAndBack) {
  for (char32_t point = 0; point < 0x110000; ++point) {
    std::string text;
    append_utf8(point, text);
    const Utf8Step step = utf8_step(text);
    if (point >= 0xD800 && point < 0xE000) {
      ASSERT_EQ(step.kind, Utf8::malformed) << static_cast<int>(point);
      continue;
    }
    ASSERT_TRUE(step.kind == Utf8::complete && step.point == point && step.length == text.size())
        << static_cast<int>(point);
    for (std::size_t cut = 1; cut < text.size(); ++cut)
      ASSERT_EQ(utf8_step(text.substr(0, cut)).kind, Utf8::cut_short) << static_cast<int>(point);
  }
}

TEST(Unicode, MalformedBytesHaveTheLengthThatOneReplacementStandsFor) {
  EXPECT_EQ(utf8_step("\xC0\x80").length, 1u);          // overlong
  EXPECT_EQ(utf8_step("\xE0\x9F\xBF").length, 1u);      // overlong
  EXPECT_EQ(utf8_step("\xE2\x82z").length, 2u);         // begun and broken off
  EXPECT_EQ(utf8_step("\xF0\x9F\x98z").length, 3u);     // begun and broken off
  EXPECT_EQ(utf8_step("\xF4\x90\x80\x80").length, 1u);  // beyond U+10FFFF
  EXPECT_EQ(utf8_step("\xF8").kind, Utf8::malformed);
}

// Counts from Unicode 16 by another program (tools/unicode_tables.py prints the tables, this counts what they give).
TEST(Unicode, ClassesHaveAsManyCodePointsAsUnicodeSays) {
  int letters = 0, numbers = 0, spaces = 0;
  for (char32_t point = 0; point < 0x110000; ++point) {
    letters += is_letter(point);
    numbers += is_number(point);
    spaces += is_space(point);
    EXPECT_LE(is_letter(point) + is_number(point) + is_space(point), 1);
  }
  EXPECT_EQ(letters, 141028);
  EXPECT_EQ(numbers, 1911);
  EXPECT_EQ(spaces, 25);
}

TEST(Split, WordsCoverTheText) {
  for (const SplitRule rule : {SplitRule::none, SplitRule::gpt2, SplitRule::llama3, SplitRule::qwen2}) {
    std::string text = "I've 12345 \xff\xfe  \n\n x\t\tend  ";
    while (!text.empty()) {
      const std::size_t length = first_word(rule, text);
      ASSERT_TRUE(length > 0 && length <= text.size());
      text.erase(0, length);
    }
  }
  EXPECT_EQ(first_word(SplitRule::llama3, "12345"), 3u);
  EXPECT_EQ(first_word(SplitRule::qwen2, "12345"), 1u);
  EXPECT_EQ(first_word(SplitRule::gpt2, "12345"), 5u);
}

// The scanners against the regular expressions they stand for, on ASCII, which std::regex can read: \p{L} is [A-Za-z],
// \p{N} is [0-9], and (?i:..) is spelt out.
const char* const kAsciiGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+)";
const char* const kAsciiTail = R"(| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kAsciiHead = R"('[sStTmMdD]|'[rRvV][eE]|'[lL][lL]|[^\r\nA-Za-z0-9]?[A-Za-z]+|)";

std::size_t first_by_regex(const std::regex& pattern, const std::string& text) {
  std::smatch found;
  EXPECT_TRUE(std::regex_search(text, found, pattern, std::regex_constants::match_continuous)) << text;
  return num(found.length());
}

// Letters, digits, marks and spaces, as likely as each other: most rules meet in a few characters.
std::string random_ascii(std::mt19937& random) {
  static constexpr std::string_view kCommon = "aZst'relvmd09 5 \t\n\r.,-'!";
  std::string text;
  for (auto left = 1 + random() % 24; left > 0; --left) text += kCommon[random() % kCommon.size()];
  return text;
}

void expect_same(SplitRule rule, const std::string& pattern) {
  const std::regex regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    const std::string whole = random_ascii(random);
    for (std::string text = whole; !text.empty();) {
      const std::size_t length = first_word(rule, text);
      ASSERT_EQ(length, first_by_regex(regex, text)) << "of \"" << text << "\" in \"" << whole << "\"";
      text.erase(0, length);
    }
  }
}

TEST(Split, Gpt2IsItsRegularExpression) { expect_same(SplitRule::gpt2, kAsciiGpt2); }
TEST(Split, Llama3IsItsRegularExpression) {
  expect_same(SplitRule::llama3, std::string(kAsciiHead) + "[0-9]{1,3}" + kAsciiTail);
}
TEST(Split, Qwen2IsItsRegularExpression) {
  expect_same(SplitRule::qwen2, std::string(kAsciiHead) + "[0-9]" + kAsciiTail);
}

std::vector<std::string> words_of(SplitRule rule, std::string text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    words.push_back(text.substr(0, first_word(rule, text)));
    text.erase(0, words.back().size());
  }
  return words;
}

TEST(Split, LettersAndNumbersAreUnicodes) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_of(SplitRule::gpt2, "naïve Ünïts"), (Words{"naïve", " Ünïts"}));
  EXPECT_EQ(words_of(SplitRule::gpt2, "東京2024年"), (Words{"東京", "2024", "年"}));
  EXPECT_EQ(words_of(SplitRule::qwen2, "x²³"), (Words{"x", "²", "³"})) << "numbers of class No";
  EXPECT_EQ(words_of(SplitRule::llama3, "It'ſ"), (Words{"It", "'ſ"})) << "the long s is an s in any case";
  EXPECT_EQ(words_of(SplitRule::gpt2, "a\u00a0b"), (Words{"a", "\u00a0", "b"})) << "a space that does not break";
}

TEST(Split, ALongRunIsScannedOnce) {
  for (const SplitRule rule : {SplitRule::gpt2, SplitRule::llama3, SplitRule::qwen2})
    for (const char c : {' ', '\n', '.', 'x'}) EXPECT_EQ(words_of(rule, std::string(1 << 20, c)).size(), 1u) << c;
}

}  // namespace
}  // namespace weft
