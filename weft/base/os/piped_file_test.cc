#include "weft/base/os/piped_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "weft/base/json.h"
#include "weft/base/refusal_test.h"

namespace weft {
namespace {

constexpr const char* kVariable = "WEFT_TEST_PIPED";

class PipedFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/weft_pipe_" + std::to_string(getpid());
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    ::unsetenv(kVariable);
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    ::unsetenv(kVariable);
  }

  std::string path_;
};

TEST_F(PipedFile, APipeIsReadOnceAndItsCopyAnyNumberOfTimes) {
  const std::string text(200'000, 'x');
  std::thread writer([&] { std::ofstream(path_) << text; });
  const std::string copy = repeatable_path(path_, {.variable = kVariable});
  writer.join();
  EXPECT_NE(copy, path_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(read_text_file(copy, 1 << 20), text);
  EXPECT_EQ(repeatable_path(path_, {.variable = kVariable, .may_read = false}), copy) << "as a rank would find it";
}

TEST_F(PipedFile, APipeThatIsSomebodyElsesIsRefused) {
  EXPECT_EQ(refusal([&] { repeatable_path(path_, {.variable = kVariable, .may_read = false}); }),
            "\"" + path_ + "\" can be read once, and every rank needs it; give a plain file that all ranks can open");
}

TEST_F(PipedFile, MoreThanIsAllowedIsRefused) {
  std::thread writer([&] { std::ofstream(path_) << std::string(2000, 'x'); });
  const std::string said = refusal([&] { repeatable_path(path_, {.variable = kVariable, .most_bytes = 1000}); });
  writer.join();
  EXPECT_EQ(said, "\"" + path_ + "\" is larger than 1000 bytes; give a smaller file");
}

TEST_F(PipedFile, PlainFilesFoldersAndWhatIsNotThereStayAsTheyAre) {
  for (const std::string& path : {std::string("/etc/hostname"), std::string("/tmp"), path_ + ".none"})
    EXPECT_EQ(repeatable_path(path, {.variable = kVariable}), path);
  EXPECT_EQ(std::getenv(kVariable), nullptr);
}

}  // namespace
}  // namespace weft
