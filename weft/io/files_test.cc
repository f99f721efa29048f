// Files that appear whole or not at all, and files that are mapped.
#include <sys/stat.h>

#include <fstream>

#include <gtest/gtest.h>

#include "weft/base/refusal_test.h"
#include "weft/io/mapped_file.h"
#include "weft/io/new_file.h"
#include "weft/io/scratch_folder_test.h"

namespace weft {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::ptrdiff_t files_in(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

TEST(NewFile, AppearsWhenItIsWhole) {
  const ScratchFolder folder;
  NewFile file(folder.file("x"));
  file.write("abc", 3);
  EXPECT_FALSE(std::filesystem::exists(folder.file("x")));
  file.write("def", 3);
  file.commit();
  EXPECT_EQ(text_of(folder.file("x")), "abcdef");
  EXPECT_EQ(files_in(folder.path()), 1) << "nothing is left beside it";
}

TEST(NewFile, WithoutCommitTheOldOneStays) {
  const ScratchFolder folder;
  folder.write("x", "old");
  {
    NewFile file(folder.file("x"));
    file.write("new", 3);
  }
  EXPECT_EQ(text_of(folder.file("x")), "old");
  EXPECT_EQ(files_in(folder.path()), 1);
  NewFile file(folder.file("x"));
  file.write("new", 3);
  file.commit();
  EXPECT_EQ(text_of(folder.file("x")), "new");
}

TEST(NewFile, AFolderThatIsNotThereIsNamed) {
  const ScratchFolder folder;
  const std::string path = folder.file("none/x");
  EXPECT_NE(refusal([&] { NewFile file(path); }).find(path), std::string::npos);
}

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
