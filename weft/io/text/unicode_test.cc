#include "weft/io/text/unicode.h"

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/text/split.h"

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

}  // namespace
}  // namespace weft
