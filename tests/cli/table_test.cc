// What commands share beside ranks: tables that line up, and files that are written or refused.
#include "cli/table.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"

#include "cli/write_file.h"

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

TEST(CliWriteFile, WritesAllOrRefusesWithTheRemedy) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/x.svg";
  write_file(path, "first and longer");
  write_file(path, "second");
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "second");
  EXPECT_NE(refusal([&] { write_file(folder.path() + "/none/x.svg", ""); }).find("name a file in a folder"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::cli
