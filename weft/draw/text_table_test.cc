// Tables that line up and prose that fits the terminal.
#include "weft/draw/text_table.h"

#include <gtest/gtest.h>

namespace weft::draw {
namespace {

TEST(TextTable, NumbersAreFlushRightAndWordsFlushLeft) {
  EXPECT_EQ(aligned({{"a", "1", "first"}, {"long", "100", "second"}}),
            "  a       1  first\n"
            "  long  100  second\n");
  EXPECT_EQ(aligned({{"a", "1"}, {"b", "22"}}, Last::number, 0),
            "a   1\n"
            "b  22\n");
}

TEST(TextTable, WidthsCountCharactersNotBytes) {
  EXPECT_EQ(aligned({{"é", "1"}, {"bb", "2"}}, Last::number, 0),
            "é   1\n"
            "bb  2\n");
}

TEST(WrappedText, LinesBreakAtTheLastBlankThatFits) {
  EXPECT_EQ(wrapped("one two three\n", 7), "one two\nthree\n");
  EXPECT_EQ(wrapped("one two three", 8), "one two\nthree");
  EXPECT_EQ(wrapped("one two", 7), "one two");
  EXPECT_EQ(wrapped("", 7), "");
  EXPECT_EQ(wrapped("\n\na\n", 7), "\n\na\n");
}

TEST(WrappedText, BrokenLinesKeepTheirIndent) { EXPECT_EQ(wrapped("  ab cd ef\n", 7), "  ab cd\n  ef\n"); }

TEST(WrappedText, LongWordsStayWhole) {
  EXPECT_EQ(wrapped("abcdefghij kl mn\n", 5), "abcdefghij\nkl mn\n");
  EXPECT_EQ(wrapped("abcdefghij\n", 5), "abcdefghij\n");
  EXPECT_EQ(wrapped("  abcdefghij\n", 5), "  abcdefghij\n");
}

TEST(WrappedText, WrappingCountsCharactersAndLosesNone) {
  EXPECT_EQ(wrapped("ééé éé", 6), "ééé éé");
  std::string text;
  for (int i = 0; i < 200; ++i) text += std::string(static_cast<std::size_t>(i * 7 % 13 + 1), 'a' + i % 26) + " ";
  text.back() = '\n';
  for (const int columns : {13, 20, 40, 119}) {
    std::string folded = wrapped(text, columns);
    std::size_t begin = 0;
    for (std::size_t end; (end = folded.find('\n', begin)) != std::string::npos; begin = end + 1) {
      EXPECT_LE(end - begin, static_cast<std::size_t>(columns));
    }
    for (char& c : folded)
      if (c == '\n') c = ' ';
    folded.back() = '\n';
    EXPECT_EQ(folded, text) << columns;
  }
}

}  // namespace
}  // namespace weft::draw
