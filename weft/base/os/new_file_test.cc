// The one writer: plain files are replaced whole, links keep leading where they led, and what is no plain file is
// written to or refused, and never replaced. Nodes are made here: no test writes to a path of the system.
#include "weft/base/os/new_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/index.h"
#include "weft/base/refusal_test.h"
#include "weft/io/scratch_folder_test.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::ptrdiff_t files_in(const std::string& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

struct stat look_at(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(::lstat(path.c_str(), &found), 0) << path;
  return found;
}

mode_t mode_of(const std::string& path) { return look_at(path).st_mode & 07777; }

TEST(NewFile, AppearsWhenItIsWhole) {
  const ScratchFolder folder;
  NewFile file(folder.file("x"));
  file.write("abc");
  EXPECT_FALSE(fs::exists(folder.file("x")));
  file.write("def");
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
  write_file(folder.file("x"), "new");
  EXPECT_EQ(text_of(folder.file("x")), "new");
}

// Whoever has the old file open keeps all of it: it is replaced, not written over.
TEST(NewFile, AReaderOfTheOldFileSeesTheOldFile) {
  const ScratchFolder folder;
  folder.write("x", "old and longer");
  std::ifstream reader(folder.file("x"));
  write_file(folder.file("x"), "new");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old and longer");
  EXPECT_EQ(text_of(folder.file("x")), "new");
}

TEST(NewFile, KeepsThePermissionsOfWhatItReplaces) {
  const ScratchFolder folder;
  const mode_t before = ::umask(027);
  write_file(folder.file("new"), "x");
  write_file(folder.file("program"), "x", 0755);
  ::umask(before);
  EXPECT_EQ(mode_of(folder.file("new")), 0640u) << "as the umask has it";
  EXPECT_EQ(mode_of(folder.file("program")), 0755u) << "as asked for";
  for (const mode_t mode : {0600u, 0644u, 0666u, 0751u}) {
    ASSERT_EQ(::chmod(folder.file("new").c_str(), mode), 0);
    write_file(folder.file("new"), "y");
    EXPECT_EQ(mode_of(folder.file("new")), mode);
  }
}

TEST(NewFile, RootLeavesAFileToItsOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const ScratchFolder folder;
  folder.write("x", "old");
  ASSERT_EQ(::chown(folder.file("x").c_str(), 1234, 567), 0);
  write_file(folder.file("x"), "new");
  EXPECT_EQ(look_at(folder.file("x")).st_uid, 1234u);
  EXPECT_EQ(look_at(folder.file("x")).st_gid, 567u);
}

TEST(NewFile, LinksAreFollowedAndStay) {
  const ScratchFolder folder;
  fs::create_directory(folder.file("far"));
  folder.write("far/x", "old");
  fs::create_symlink("far/x", folder.file("relative"));
  fs::create_symlink(folder.file("relative"), folder.file("twice"));
  fs::create_symlink("far", folder.file("near"));
  int turn = 0;
  for (const char* name : {"relative", "twice", "near/x"}) {
    write_file(folder.file(name), std::to_string(++turn));
    EXPECT_EQ(text_of(folder.file("far/x")), std::to_string(turn)) << name;
    EXPECT_EQ(fs::is_symlink(folder.file(name)), std::string_view(name) != "near/x") << name;
  }
  EXPECT_EQ(files_in(folder.file("far")), 1);
  fs::create_symlink("far/made", folder.file("dangling"));
  write_file(folder.file("dangling"), "there now");
  EXPECT_EQ(text_of(folder.file("far/made")), "there now");
  fs::create_symlink("b", folder.file("a"));
  fs::create_symlink("a", folder.file("b"));
  EXPECT_NE(refusal([&] { write_file(folder.file("a"), "x"); }).find(folder.file("a")), std::string::npos);
}

// A node of our own with the numbers of /dev/null and /dev/full.
class Device : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::mknod(path().c_str(), S_IFCHR | 0666, ::makedev(1, 3)) != 0) GTEST_SKIP() << "only root makes devices";
    ASSERT_EQ(::mknod(folder_.file("full").c_str(), S_IFCHR | 0666, ::makedev(1, 7)), 0);
    if (Fd(::open(path().c_str(), O_WRONLY)).get() < 0) GTEST_SKIP() << "devices are off in " << folder_.path();
  }
  std::string path() const { return folder_.file("null"); }

  const ScratchFolder folder_;
};

TEST_F(Device, IsWrittenToAndStays) {
  fs::create_symlink("null", folder_.file("link"));
  for (const char* name : {"null", "link"}) {
    EXPECT_TRUE(is_written_in_place(folder_.file(name)));
    check_writable(folder_.file(name));
    write_file(folder_.file(name), "gone");
    EXPECT_TRUE(S_ISCHR(look_at(path()).st_mode)) << "still a device";
    EXPECT_EQ(look_at(path()).st_rdev, ::makedev(1, 3));
  }
  EXPECT_EQ(files_in(folder_.path()), 3) << "nothing was written aside";
}

TEST_F(Device, ThatIsFullIsAFailure) {
  try {
    write_file(folder_.file("full"), "x");
    FAIL() << "should have thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::io);
    EXPECT_NE(std::string(error.what()).find("No space left"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(S_ISCHR(look_at(folder_.file("full")).st_mode));
}

TEST(NewFile, APipeIsWrittenToWhereItHasAReader) {
  const ScratchFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  check_writable(pipe);  // and does not wait for a reader
  EXPECT_NE(refusal([&] { write_file(pipe, "x"); }).find("start its reader first"), std::string::npos);
  const std::string sent(1 << 20, 'x');  // more than a pipe holds: the writer has to wait
  const Fd end(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  ::fcntl(end.get(), F_SETFL, 0);
  std::thread writer([&] { write_file(pipe, sent); });
  std::string got;
  std::vector<char> piece(1 << 16);
  while (got.size() < sent.size()) {
    const ssize_t n = ::read(end.get(), piece.data(), piece.size());
    ASSERT_GE(n, 0);
    got.append(piece.data(), num(n));
  }
  writer.join();
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(S_ISFIFO(look_at(pipe).st_mode));
}

// As /dev/stdout and `>(program)` of a shell: what is there goes on from where it stands.
TEST(NewFile, OwnDescriptorsAreWrittenTo) {
  const ScratchFolder folder;
  const Fd out(::open(folder.file("out").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(::write(out.get(), "before ", 7), 7);
  for (const std::string& path : {fmt::format("/proc/self/fd/{}", out.get()), fmt::format("/dev/fd/{}", out.get())}) {
    EXPECT_TRUE(is_written_in_place(path));
    write_file(path, "inside ");
  }
  ASSERT_EQ(::write(out.get(), "after", 5), 5);
  EXPECT_EQ(text_of(folder.file("out")), "before inside inside after");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(NewFile, WhatCannotBeWrittenIsRefusedWithTheRemedy) {
  const ScratchFolder folder;
  folder.write("plain", "x");
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{.sun_family = AF_UNIX};
  std::strncpy(address.sun_path, folder.file("socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::pair<std::string, const char*> kBad[] = {{folder.path(), "it is a folder; name a file"},
                                                      {folder.path() + "/", "it is a folder; name a file"},
                                                      {folder.file("none/x"), "name a file in a folder that is there"},
                                                      {folder.file("none/"), "name a file in a folder that is there"},
                                                      {folder.file("plain/x"), "Not a directory; name a file"},
                                                      {folder.file("plain/"), "Not a directory; name a file"},
                                                      {folder.file("socket"), "name a plain file"},
                                                      {folder.file(std::string(300, 'n')), "File name too long"},
                                                      {"", "names no file"}};
  for (const auto& [path, words] : kBad) {
    const std::string said = refusal([&] { write_file(path, "y"); });
    EXPECT_NE(said.find(words), std::string::npos) << path << ": " << said;
    EXPECT_EQ(said.find(fmt::format("cannot write \"{}\": ", path)), 0u) << said;
  }
  EXPECT_EQ(text_of(folder.file("plain")), "x");
  EXPECT_EQ(files_in(folder.path()), 2);
  const std::string longest = folder.file(std::string(255, 'n'));
  write_file(longest, "as long as a name may be");
  EXPECT_EQ(text_of(longest), "as long as a name may be");
}

TEST(NewFile, AFileThatIsNotOursIsNotReplaced) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everything";
  const ScratchFolder folder;
  folder.write("x", "kept");
  ASSERT_EQ(::chmod(folder.file("x").c_str(), 0444), 0);
  EXPECT_NE(refusal([&] { write_file(folder.file("x"), "y"); }).find("Permission denied"), std::string::npos);
  EXPECT_EQ(text_of(folder.file("x")), "kept");
}

// A limit on sizes of files stands in for a full disk: the same system call fails, in the middle of a write.
TEST(NewFile, AFullDiskIsAFailureAndLeavesWhatWasThere) {
  const ScratchFolder folder;
  folder.write("x", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string said;
  Code code = Code::internal;
  try {
    write_file(folder.file("x"), std::string(10'000, 'y'));
  } catch (const Error& error) {
    said = error.what(), code = error.code();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, Code::io);
  EXPECT_EQ(said.find(fmt::format("cannot write \"{}\": ", folder.file("x"))), 0u) << said;
  EXPECT_EQ(text_of(folder.file("x")), "old");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(NewFile, CheckingLeavesNothing) {
  const ScratchFolder folder;
  check_writable(folder.file("x"));
  EXPECT_EQ(files_in(folder.path()), 0);
  folder.write("x", "kept");
  check_writable(folder.file("x"));
  EXPECT_EQ(text_of(folder.file("x")), "kept");
  EXPECT_NE(refusal([&] { check_writable(folder.file("none/x")); }).find("none/x"), std::string::npos);
  EXPECT_FALSE(is_written_in_place(folder.file("x")));
  EXPECT_FALSE(is_written_in_place(folder.file("new")));
}

// Several threads, one path: one of the texts stays, whole.
TEST(NewFile, WritersOfOnePathDoNotMix) {
  const ScratchFolder folder;
  std::vector<std::thread> writers;
  for (const char letter : {'a', 'b', 'c', 'd'})
    writers.emplace_back([&, letter] {
      for (int turn = 0; turn < 20; ++turn) write_file(folder.file("x"), std::string(5000, letter));
    });
  for (std::thread& writer : writers) writer.join();
  const std::string left = text_of(folder.file("x"));
  EXPECT_EQ(left, std::string(5000, left.empty() ? '?' : left[0]));
  EXPECT_EQ(files_in(folder.path()), 1);
}

}  // namespace
}  // namespace weft
