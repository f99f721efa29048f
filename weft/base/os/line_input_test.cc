#include "weft/base/os/line_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

using News = LineInput::News;
using namespace std::chrono_literals;

class LinePipe : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(ends_), 0); }
  void TearDown() override {
    close(ends_[0]);
    shut();
  }
  void shut() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  void put(const std::string& text) { ASSERT_EQ(write(ends_[1], text.data(), text.size()), std::ssize(text)); }

  int ends_[2] = {-1, -1};
};

TEST_F(LinePipe, GivesLinesOnceTheyAreWhole) {
  LineInput input(ends_[0]);
  std::string line;
  EXPECT_EQ(input.wait(1ms, &line), News::nothing);
  put("on");
  EXPECT_EQ(input.wait(1ms, &line), News::nothing);
  put("e\n\ntwo\nlast");
  std::vector<std::string> lines;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(input.wait(1ms, &line), News::line) << i;
    lines.push_back(line);
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", "two"}));
  EXPECT_EQ(input.wait(1ms, &line), News::nothing);
  shut();
  ASSERT_EQ(input.wait(1ms, &line), News::line);
  EXPECT_EQ(line, "last");
  EXPECT_EQ(input.wait(1ms, &line), News::end);
  EXPECT_EQ(input.wait(1ms, &line), News::end);
}

TEST_F(LinePipe, AClosedDescriptorIsAnError) {
  LineInput input(-1);
  std::string line;
  shut();
  EXPECT_EQ(input.wait(1ms, &line), News::nothing);  // poll leaves it out
  LineInput written(open("/dev/null", O_WRONLY));
  EXPECT_THROW(written.wait(1ms, &line), Error);
}

}  // namespace
}  // namespace weft
