// What a command writes, to standard output and to files: what cannot be written is a failure with one sentence, and
// what is no plain file is never replaced. Nodes are made in a folder of the test: nothing here names a system's file
// but /dev/full, which standard output goes to.
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weft/io/scratch_folder_test.h"

#include "tests/cli/runs.h"

namespace weft::testing {
namespace {

Ended shell(const std::string& words) { return wait_for(start_program({"sh", "-c", words})); }
Ended shell_weft(const std::string& words) { return shell(std::string(WEFT_BINARY) + " " + words); }

void expect_one_sentence(const Ended& ended, int code, const std::string& names) {
  EXPECT_EQ(ended.code, code) << ended.err;
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  EXPECT_NE(ended.err.find(names), std::string::npos) << ended.err;
}

bool is_empty(const std::string& folder) { return std::filesystem::is_empty(folder); }

constexpr const char* kSmallBench = "bench gemm-rs --m 32 --n 32 --k 8 --rounds 1";
const std::string kModel = std::string(WEFT_SOURCE) + "/models/weft-16";

class FullOutput : public ::testing::TestWithParam<std::string> {};

TEST_P(FullOutput, IsAFailure) {
  expect_one_sentence(shell_weft(GetParam() + " >/dev/full"), 1, "standard output cannot be written");
}

INSTANTIATE_TEST_SUITE_P(Output, FullOutput,
                         ::testing::Values("--help", "--version", "plan --help", "info", "info --json", "plan gemm-rs",
                                           "plan gemm-rs --json", kSmallBench,
                                           std::string(kSmallBench) + " --transport threads --json", "sim t3",
                                           "sim t3 --json", "reshard plan --case 1 --size 1MB",
                                           "reshard run --case 1 --size 64KB --json", "cluster list", "ledger --help",
                                           "run -n 2 --json -- true",
                                           "generate --ranks 2 --max-tokens 2 --prompt The --model " + kModel));

TEST(Output, ThatIsClosedIsAFailureToo) {
  for (const std::string& words : {std::string("plan gemm-rs"), std::string("info --json"), std::string(kSmallBench)})
    expect_one_sentence(shell_weft(words + " >&-"), 1, "standard output cannot be written: Bad file descriptor");
}

TEST(Output, StandardErrorThatCannotBeWrittenChangesNoExitCode) {
  EXPECT_EQ(shell_weft("plan nothing 2>/dev/full").code, 2);
  EXPECT_EQ(shell_weft("plan nothing 2>&-").code, 2);
  EXPECT_EQ(shell_weft("plan gemm-rs --json 2>&-").code, 0);
}

// A file that is opened while standard output is closed must not become standard output.
TEST(Output, ClosedStandardOutputIsNotPrintedIntoAFile) {
  const ScratchFolder folder;
  const std::string path = folder.file("plan.json");
  expect_one_sentence(shell_weft(fmt::format("plan gemm-rs --save {} >&-", path)), 1, "standard output");
  EXPECT_EQ(weft({"plan", "--load", path}).code, 0) << "the plan, and nothing else";
}

class OutNode : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::mknod(node().c_str(), S_IFCHR | 0666, ::makedev(1, 3)) != 0) GTEST_SKIP() << "only root makes devices";
  }
  std::string node() const { return folder_.file("null"); }
  bool is_there() const {
    struct stat found {};
    return ::lstat(node().c_str(), &found) == 0 && S_ISCHR(found.st_mode) && found.st_rdev == ::makedev(1, 3);
  }

  const ScratchFolder folder_;
};

TEST_F(OutNode, IsWrittenToByEveryFlagThatNamesAFile) {
  for (const std::string& words :
       {std::string("plan gemm-rs --save"), std::string("reshard plan --case 1 --size 1MB --svg"),
        std::string("reshard plan --case 1 --size 1MB --save"), std::string("sim t3 --layer fc2 --svg"),
        std::string("sim t3 --layer fc2 --trace"), std::string("info --calibrate --save")}) {
    const Ended ended = shell_weft(words + " " + node());
    EXPECT_EQ(ended.code, 0) << words << ": " << ended.err;
    ASSERT_TRUE(is_there()) << words;
  }
  const Ended drawn = shell(
      "echo '{\"chart\": \"bar\", \"series\": [\"ms\"], \"groups\": [{\"name\": \"a\", "
      "\"values\": [1]}]}' | " WEFT_BINARY " draw - --svg " +
      node());
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  ASSERT_TRUE(is_there());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(OutNode, IsRefusedByATimelineOfRanks) {
  for (const char* more : {"", " --transport threads"})
    expect_one_sentence(shell_weft(fmt::format("{}{} --trace {}", kSmallBench, more, node())), 2, "name a plain file");
  EXPECT_TRUE(is_there());
}

TEST(Output, GoesToStandardOutputByItsName) {
  const Ended ended = shell_weft("plan gemm-rs --json --save /dev/stdout | cat");
  const std::size_t end = ended.out.find("\n{\"ok\"");  // the plan, then the report
  ASSERT_NE(end, std::string::npos) << ended.out;
  EXPECT_TRUE(nlohmann::json::parse(ended.out.substr(0, end)).contains("rules"));
  EXPECT_TRUE(nlohmann::json::parse(ended.out.substr(end)).contains("steps"));
}

TEST(Output, PathsThatNameNoFileAreRefusedBeforeAnythingIsDone) {
  const ScratchFolder folder;
  for (const std::string& words :
       {std::string("plan gemm-rs --save"), std::string(kSmallBench) + " --axis --svg",
        std::string(kSmallBench) + " --trace", std::string("ledger --save"),
        std::string("ledger --workload t-nlg --svg"), std::string("reshard plan --case 1 --svg"),
        std::string("sim t3 --layer fc2 --trace"), std::string("info --calibrate --save"),
        std::string("generate --model x --logits"), std::string("eval --model x --save"),
        std::string("spd analyze --model x --out")}) {
    expect_one_sentence(shell_weft(words + " " + folder.path()), 2, "it is a folder; name a file");
    expect_one_sentence(shell_weft(words + " " + folder.file("none/x")), 2, "name a file in a folder that is there");
    if (!words.starts_with("info"))  // its --save may stand alone
      expect_one_sentence(shell_weft(words + " ''"), 2, "names no file");
  }
  EXPECT_TRUE(is_empty(folder.path()));
}

// A limit on the size of files refuses as a full disk does, without root.
TEST(Output, AFullDiskIsAFailureThatLeavesNothing) {
  const ScratchFolder folder;
  const std::string path = folder.file("x.json");
  const auto limited = [&](const std::string& words) {
    return shell(
        fmt::format("(ulimit -f 1; {} {} {} | cat >/dev/null; exit 0) 2>&1 | cat >&2", WEFT_BINARY, words, path));
  };
  for (const std::string& words :
       {std::string("plan gemm-rs --ranks 4 --save"), std::string("reshard plan --case 1 --size 1MB --svg"),
        std::string("sim t3 --layer fc2 --trace"), std::string(kSmallBench) + " --transport threads --trace"}) {
    const Ended ended = limited(words);
    EXPECT_NE(ended.err.find("cannot write \"" + path), std::string::npos) << words << ": " << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_TRUE(is_empty(folder.path())) << words;
  }
}

// The same on a disk that is full, with ranks that are processes.
class SmallDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::mount("none", folder_.path().c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "only root mounts";
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) ::umount(folder_.path().c_str());
  }

  const ScratchFolder folder_;
  bool mounted_ = false;
};

TEST_F(SmallDisk, IsAFailureWithExitOneThatLeavesNothing) {
  const std::string path = folder_.file("x.json");
  ASSERT_EQ(weft({"plan", "gemm-rs", "--save", path}).code, 0) << "a small plan fits";
  std::filesystem::remove(path);
  for (const std::string& words : {std::string("bench gemm-rs --m 64 --n 64 --k 8 --rounds 20 --trace"),
                                   std::string("sim t3 --layer fc2 --trace")}) {
    const Ended ended = shell_weft(words + " " + path);
    EXPECT_EQ(ended.code, 1) << words << ": " << ended.err;
    EXPECT_NE(ended.err.find("No space left on device"), std::string::npos) << ended.err;
    EXPECT_TRUE(is_empty(folder_.path())) << words;
  }
}

}  // namespace
}  // namespace weft::testing
