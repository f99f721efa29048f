// Files that are mapped.
#include "weft/io/mapped_file.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"

namespace weft {
namespace {

TEST(MappedFile, HasTheBytesOfTheFile) {
  const ScratchFolder folder;
  folder.write("x", "hello");
  MappedFile file = MappedFile::open(folder.file("x"));
  ASSERT_EQ(file.bytes().size(), 5u);
  EXPECT_EQ(static_cast<char>(file.bytes()[4]), 'o');
  const std::byte* data = file.bytes().data();
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes().data(), data);
  MappedFile assigned;
  EXPECT_TRUE(assigned.bytes().empty());
  assigned = std::move(moved);
  EXPECT_EQ(assigned.bytes().data(), data);
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const ScratchFolder folder;
  folder.write("x", "");
  EXPECT_TRUE(MappedFile::open(folder.file("x")).bytes().empty());
}

TEST(MappedFile, WhatIsNoPlainFileIsRefused) {
  const ScratchFolder folder;
  EXPECT_NE(refusal([&] { MappedFile::open(folder.file("none")); }).find("none"), std::string::npos);
  EXPECT_NE(refusal([&] { MappedFile::open(folder.path()); }).find(folder.path()), std::string::npos);
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_NE(refusal([&] { MappedFile::open(folder.file("pipe")); }).find("pipe"), std::string::npos)
      << "and does not wait for a writer";
}

}  // namespace
}  // namespace weft
