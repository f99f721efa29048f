// What commands share beside ranks: tables that line up.
#include "cli/table.h"

#include <gtest/gtest.h>

namespace weft::cli {
namespace {

TEST(CliTable, NumbersAreFlushRightAndWordsFlushLeft) {
  EXPECT_EQ(aligned({{"a", "1", "first"}, {"long", "100", "second"}}),
            "  a       1  first\n"
            "  long  100  second\n");
  EXPECT_EQ(aligned({{"a", "1"}, {"b", "22"}}, Last::number, 0),
            "a   1\n"
            "b  22\n");
}

TEST(CliTable, WidthsCountCharactersNotBytes) {
  EXPECT_EQ(aligned({{"é", "1"}, {"bb", "2"}}, Last::number, 0),
            "é   1\n"
            "bb  2\n");
}

}  // namespace
}  // namespace weft::cli
